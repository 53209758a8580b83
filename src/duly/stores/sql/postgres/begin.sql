-- Begin: the statements of one transaction, in this order. Every later one sees what the locks before it waited for.

-- name: lock_budgets
-- $1 provider, $2 endpoints, $3 those with a rate. First of all locks, in key order, never SKIP LOCKED: a peer that
-- skipped the row would spend the same tokens again. A row that counts nothing and whose doors are open is left alone.
select endpoint, rate, tokens, updated_at, blocked_until, block_reason, circuit, failures
from budget
where provider = $1 and endpoint = any (array(select unnest($2::uuid[])))
  and (rate is not null or circuit or blocked_until > statement_timestamp() or endpoint = any ($3::uuid[]))
order by endpoint
for update;

-- name: add_budgets
-- $1 provider, $2 endpoints in key order, $3 their tokens, $4 their rates.
insert into budget (provider, endpoint, tokens, rate)
select $1, u.endpoint, u.tokens, u.rate
from unnest($2::uuid[], $3::float8[], $4::float8[]) u (endpoint, tokens, rate)
on conflict do nothing;

-- name: clock
-- Asked after the budgets are locked: the wait for them is over.
select clock_timestamp();

-- name: lock_revisions
-- $1 delivery ids. FOR SHARE, not FOR KEY SHARE (a cancel changes no key column), and not a plain read (a cancel could
-- commit between the snapshot and our commit). Accounts, reminders, recipients, contacts, each in key order: the
-- subqueries run from left to right, so that a begin and a cancel cannot deadlock.
with w as materialized (
  select account_id, reminder_id, recipient_id, contact_id from work
  where delivery_id = any (array(select unnest($1::uuid[]))))
select (select count(*) from (select from account where id = any (array(select account_id from w))
                              order by id for share) a)
     + (select count(*) from (select from reminder where id = any (array(select reminder_id from w))
                              order by id for share) r)
     + (select count(*) from (select from recipient where id = any (array(select recipient_id from w))
                              order by id for share) p)
     + (select count(*) from (select from contact where id = any (array(select contact_id from w))
                              order by id for share) k);

-- name: begin
-- $1 ids, $2 fences, $3..$6 revisions of account, reminder, recipient and contact that admission saw, $7 good until,
-- $8 destinations, $9 bodies, $10 hashes, $11 templates, $12 their versions, $13 whether the bytes are new,
-- $14 provider, $15 worker.
--
-- The clock is asked when a row is about to be updated: a condition on one table alone would be asked for all rows at
-- the start. The attempt starts when its row is written, a moment later: hence 5 ms.
-- The update touches no indexed column, so that it stays on its page (HOT). The revisions are compared by scalar
-- subqueries on purpose: as joins, equal revisions become the join's key, and every row meets every account.
--
-- Nothing begins while the gate is shut, and no lock is needed for that: whoever opens the guard raises the fence of
-- every open row in the same transaction. A begin that comes to a row before that commits first, and its attempt
-- becomes unknown; one that comes later waits for the row and finds another fence. Only a row that was not there yet
-- when the guard was opened would slip through: so those who write new rows wait for it (guard.sql).
with want as (
  select * from unnest($1::uuid[], $2::int[], $3::int[], $4::int[], $5::int[], $6::int[], $7::timestamptz[],
                       $8::text[], $9::bytea[], $10::bytea[], $11::text[], $12::text[], $13::bool[])
    u (delivery_id, fence, account_revision, reminder_revision, recipient_revision, contact_revision, good_until,
       destination, body, hash, template, template_version, fresh)),
begun as (
  update work w set begun = true, attempts = w.attempts + 1, since = clock_timestamp()
  from want u
  where w.delivery_id = any (array(select unnest($1::uuid[])))
    and w.delivery_id = u.delivery_id and w.fence = u.fence and w.state || '' = 'leased' and not w.begun
    and w.worker = $15 and (select open from gate)
    and least(u.good_until, w.lease_until, w.deadline_at - interval '5 ms') > clock_timestamp()
    and u.account_revision = (select a.revision from account a where a.id = w.account_id)
    and u.reminder_revision = (select r.revision from reminder r where r.id = w.reminder_id)
    and u.recipient_revision = (select p.revision from recipient p where p.id = w.recipient_id)
    and u.contact_revision = (select k.revision from contact k where k.id = w.contact_id)
  returning w.delivery_id, w.attempts, w.fence, w.since, u.destination, u.body, u.hash, u.template, u.template_version,
            u.reminder_revision, u.recipient_revision, u.contact_revision, u.fresh),
tried as (
  insert into attempt (delivery_id, number, fence, started_at, worker, provider, payload_hash)
  select b.delivery_id, b.attempts, b.fence, b.since, $15, $14, b.hash from begun b),
kept as (
  insert into frozen (delivery_id, number, destination, body, template, template_version,
                      reminder_revision, recipient_revision, contact_revision)
  select b.delivery_id, b.attempts, b.destination, b.body, b.template, b.template_version,
         b.reminder_revision, b.recipient_revision, b.contact_revision
  from begun b where b.fresh)
select delivery_id, attempts from begun;

-- name: spend
-- $1 provider, $2 endpoints, $3 tokens left, $4 rates, $5 blocked until, $6 failures, $7 when.
update budget b
set tokens = u.tokens, rate = u.rate, blocked_until = u.blocked_until, failures = u.failures, updated_at = $7
from unnest($2::uuid[], $3::float8[], $4::float8[], $5::timestamptz[], $6::int[])
  u (endpoint, tokens, rate, blocked_until, failures)
where b.provider = $1 and b.endpoint = u.endpoint;

-- name: put_off
-- Rows that the budget let wait. $1 ids, $2 fences, $3 until when, $4 reasons, $5 worker. After the revisions are
-- locked, because work comes last in the order of locks.
update work w
set state = 'waiting', next_at = u.until, reason = u.reason, since = clock_timestamp(), lease_until = null, worker = null
from unnest($1::uuid[], $2::int[], $3::timestamptz[], $4::text[]) u (delivery_id, fence, until, reason)
where w.delivery_id = any (array(select unnest($1::uuid[])))
  and w.delivery_id = u.delivery_id and w.fence = u.fence and w.state || '' = 'leased' and not w.begun and w.worker = $5
  and (select open from gate)
returning w.delivery_id;

-- name: renew
-- $1 ids, $2 fences, $3 worker, $4 lease in seconds. Touches no indexed column. A lease that has ended is not renewed:
-- somebody may be taking it back.
update work w set lease_until = clock_timestamp() + make_interval(secs => $4)
from unnest($1::uuid[], $2::int[]) u (delivery_id, fence)
where w.delivery_id = any (array(select unnest($1::uuid[])))
  and w.delivery_id = u.delivery_id and w.fence = u.fence and w.state || '' = 'leased' and w.begun and w.worker = $3
  and w.lease_until > clock_timestamp()
returning w.delivery_id;

-- name: abandon
-- $1 ids, $2 fences, $3 worker. Not begun: ready again. Begun (the begin's reply was lost): the attempt is on record,
-- and it is known that nothing of it was sent. If nothing ever was, it does not count towards a cap: see caps.sql.
with r as (select * from unnest($1::uuid[], $2::int[]) u (delivery_id, fence)),
given_back as (
  update work w
  set state = case when w.begun then 'waiting' else 'ready' end,
      reason = case when w.begun then 'begin_unconfirmed' end,
      next_at = case when w.begun then clock_timestamp() else w.next_at end,
      begun = false, since = clock_timestamp(), lease_until = null, worker = null
  from r
  where w.delivery_id = any (array(select unnest($1::uuid[])))
    and w.delivery_id = r.delivery_id and w.fence = r.fence and w.state || '' = 'leased' and w.worker = $3
  returning w.delivery_id, w.attempts, w.state, w.restored),
uncapped as (
  delete from capped c using given_back g
  where c.delivery_id = g.delivery_id and g.state = 'waiting'
    and g.attempts - 1 + g.restored::int = (
      select count(*) from attempt_result x
      where x.delivery_id = g.delivery_id and x.outcome = 'not_sent' and x.number < g.attempts))
insert into attempt_result (delivery_id, number, finished_at, outcome, detail, stale)
select g.delivery_id, g.attempts, clock_timestamp(), 'not_sent', 'begin_unconfirmed', false
from given_back g where g.state = 'waiting'
on conflict do nothing;
