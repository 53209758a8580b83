-- The installation, and what every transaction begins with.

-- name: preamble
-- $1 milliseconds. Local to the transaction: a session behind a transaction pooler is not ours to change. A commit is
-- durable when it returns, also where the database is set up to say so early; a stronger setting stays.
select now(), set_config('statement_timeout', $1, true), set_config('idle_in_transaction_session_timeout', $1, true),
       set_config('jit', 'off', true),
       case current_setting('synchronous_commit') when 'off' then set_config('synchronous_commit', 'on', true) end;

-- name: namespace
select namespace from installation;
