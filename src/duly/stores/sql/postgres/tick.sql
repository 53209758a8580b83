-- Tick: due reminders become deliveries. No CTE joins a CTE here: the planner takes each for one row, and two thousand
-- rows of both became a nested loop.

-- name: read_in_order
-- For this transaction: whatever the statistics say, `due` walks its index in order and stops at its limit. Otherwise
-- the planner may take what is due for a few rows, and join and sort all of a million for each batch. What compiling a
-- plan would cost is more than it is worth here.
select set_config('enable_bitmapscan', 'off', true), set_config('enable_seqscan', 'off', true),
       set_config('jit', 'off', true);

-- name: due
-- $1 rows at most, $2 and $3 the moment and the id behind which to start. Whoever starts there does not walk over the
-- entries that the batches before have left dead. `statement_timestamp()` and not `clock_timestamp()`, which an index
-- cannot be asked about.
with pick as materialized (
  select r.id from reminder r
  where r.next_due_at <= statement_timestamp() and r.status = 'active'
    and (r.next_due_at, r.id) > ($2::timestamptz, $3::uuid)
  order by r.next_due_at, r.id
  limit $1)
select r.id, r.account_id, a.name, r.caller_key, r.recipient_id, r.revision, r.next_due_at, r.deadline_at, r.channels,
       case when r.inline then r.addresses else coalesce(p.addresses, '{}') end, r.inline, r.lane, r.schedule, r.next_label,
       case when r.follows_recipient then coalesce(p.zone, r.zone) else r.zone end, coalesce(r.late_until, r.deadline),
       r.missed, r.grace, r.generation, case when p.deleted_at is not null then 'recipient_deleted' end
from reminder r
join account a on a.id = r.account_id
left join recipient p on p.id = r.recipient_id
where r.id = any (array(select id from pick))
order by r.next_due_at, r.id;

-- name: due_remain
-- $1 seconds to look ahead.
select exists (select from reminder
               where next_due_at <= statement_timestamp() + make_interval(secs => $1) and status = 'active');

-- name: advance
-- $1 ids in key order, $2 due times seen, $3 revisions seen, $4 next due times, $5 the occurrences that are due then, $6
-- their deadlines, $7 whether it stands still. Compare-and-set on due time and revision.
update reminder r
set next_due_at = u.next_due, next_label = u.label, deadline_at = coalesce(u.deadline, r.deadline_at),
    status = case when u.next_due is null then 'done' when u.paused then 'paused' else r.status end
from unnest($1::uuid[], $2::timestamptz[], $3::int[], $4::timestamptz[], $5::text[], $6::timestamptz[], $7::bool[])
  u (id, expected, revision, next_due, label, deadline, paused)
where r.id = any (array(select unnest($1::uuid[])))
  and r.id = u.id and r.next_due_at + interval '0' = u.expected and r.revision = u.revision and r.status = 'active'
returning r.id;

-- name: add_deliveries
-- Returns the ids that are new. $1 ids, and one array per column.
insert into delivery (id, account_id, reminder_id, recipient_id, contact_id, endpoint, occurrence, channel, provider,
                      lane, due_at, deadline_at, status, reason, finished_at)
select u.id, u.account_id, u.reminder_id, u.recipient_id, u.contact_id, u.endpoint, u.occurrence, u.channel, u.provider,
       u.lane, u.due_at, u.deadline_at, u.status, u.reason, case when u.status is not null then clock_timestamp() end
from unnest($1::uuid[], $2::int[], $3::uuid[], $4::uuid[], $5::uuid[], $6::uuid[], $7::text[], $8::text[], $9::text[],
            $10::text[], $11::timestamptz[], $12::timestamptz[], $13::text[], $14::text[])
  u (id, account_id, reminder_id, recipient_id, contact_id, endpoint, occurrence, channel, provider, lane, due_at,
     deadline_at, status, reason)
on conflict do nothing
returning id;

-- name: add_work
-- Open work for deliveries that `add_deliveries` really made. $1 ids, and one array per column.
insert into work (delivery_id, account_id, provider, lane, next_at, due_at, deadline_at, occurrence, channel,
                  reminder_id, recipient_id, contact_id, endpoint)
select u.id, u.account_id, u.provider, u.lane, u.due_at, u.due_at, u.deadline_at, u.occurrence, u.channel,
       u.reminder_id, u.recipient_id, u.contact_id, u.endpoint
from unnest($1::uuid[], $2::int[], $3::uuid[], $4::uuid[], $5::uuid[], $6::uuid[], $7::text[], $8::text[], $9::text[],
            $10::text[], $11::timestamptz[], $12::timestamptz[])
  u (id, account_id, reminder_id, recipient_id, contact_id, endpoint, occurrence, channel, provider, lane, due_at,
     deadline_at);

-- name: add_restored_work
-- As `add_work`, for deliveries that fall under a restore guard: an attempt that nobody remembers may have been made
-- when they were due, or sooner: a reschedule may be forgotten too. What was before the guard's beginning is on record.
with added as (
  insert into work (delivery_id, account_id, provider, lane, next_at, due_at, deadline_at, occurrence, channel,
                    reminder_id, recipient_id, contact_id, endpoint, state, reason, doubt, restored, first_unknown_at)
  select u.id, u.account_id, u.provider, u.lane, u.due_at, u.due_at, u.deadline_at, u.occurrence, u.channel,
         u.reminder_id, u.recipient_id, u.contact_id, u.endpoint, 'uncertain', 'restored', true, true,
         least(u.due_at, (select min(g.since) from guard g where g.closed_at is null or g.closed_at >= u.due_at))
  from unnest($1::uuid[], $2::int[], $3::uuid[], $4::uuid[], $5::uuid[], $6::uuid[], $7::text[], $8::text[], $9::text[],
              $10::text[], $11::timestamptz[], $12::timestamptz[])
    u (id, account_id, reminder_id, recipient_id, contact_id, endpoint, occurrence, channel, provider, lane, due_at,
       deadline_at)
  returning delivery_id, account_id, reminder_id)
insert into event (account_id, reminder_id, delivery_id, kind, to_state, actor, reason)
select account_id, reminder_id, delivery_id, 'restored', 'uncertain', 'tick', 'restored' from added;

-- name: note_reminders
-- Events of reminders as a whole. $1 ids, $2 accounts, $3 kinds, $4 reasons, $5 evidence.
insert into event (account_id, reminder_id, kind, from_state, to_state, actor, reason, evidence)
select u.account_id, u.id, u.kind, 'active', case when u.kind = 'paused' then 'paused' else 'active' end, 'tick', u.reason,
       u.evidence::jsonb
from unnest($1::uuid[], $2::int[], $3::text[], $4::text[], $5::text[]) u (id, account_id, kind, reason, evidence);

-- name: note_deliveries
-- Events of deliveries that the tick ended at once. $1 ids, $2 accounts, $3 reminders, $4 states, $5 reasons.
insert into event (account_id, reminder_id, delivery_id, kind, to_state, actor, reason)
select u.account_id, u.reminder_id, u.id, u.state, u.state, 'tick', u.reason
from unnest($1::uuid[], $2::int[], $3::uuid[], $4::text[], $5::text[])
  u (id, account_id, reminder_id, state, reason);
