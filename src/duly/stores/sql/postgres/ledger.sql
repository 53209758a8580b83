-- The installation, and what every transaction begins with.

-- name: preamble
-- $1 milliseconds. Local to the transaction: a session behind a transaction pooler is not ours to change.
select now(), set_config('statement_timeout', $1, true), set_config('idle_in_transaction_session_timeout', $1, true),
       set_config('jit', 'off', true);

-- name: namespace
select namespace from installation;
