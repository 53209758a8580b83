-- Cancel: the reminder's row is locked first, so that it and a begin wait for each other. Whoever commits first wins.

-- name: lock_reminder
-- $1 id.
select account_id, status, next_due_at is not null from reminder where id = $1::uuid for update;

-- name: cancel_reminder
-- $1 id, $2 actor, $3 reason, $4 status before. The revision rises, so that no admission of before can begin.
with r as (
  update reminder set status = 'cancelled', next_due_at = null, revision = revision + 1
  where id = $1::uuid and status <> 'cancelled'
  returning id, account_id)
insert into event (account_id, reminder_id, kind, from_state, to_state, actor, reason)
select r.account_id, r.id, 'cancelled', $4, 'cancelled', $2, $3 from r;

-- name: cancel_again
-- $1 reminder, $2 delivery (null: the reminder itself), $3 actor, $4 reason. It was cancelled before, and stays so: who
-- wanted it once more, and why, is kept.
insert into event (account_id, reminder_id, delivery_id, kind, from_state, to_state, actor, reason)
select r.account_id, r.id, $2::uuid, 'cancelled', 'cancelled', 'cancelled', $3, $4
from reminder r
where r.id = $1::uuid and not exists (
  select from event e where e.reminder_id = r.id and e.delivery_id is not distinct from $2::uuid and e.kind = 'cancelled'
    and e.actor = $3 and e.reason = $4);

-- name: reminder_of
-- $1 delivery.
select reminder_id from delivery where id = $1::uuid;

-- name: deliveries_of
-- $1 account, $2 reminder.
select id from delivery where account_id = $1 and reminder_id = $2::uuid;

-- name: lock_work
-- $1 ids. In key order.
select delivery_id, state, begun, doubt from work
where delivery_id = any (array(select unnest($1::uuid[])))
order by delivery_id for update;

-- name: heads
-- $1 ids: their ends, null for those that are open.
select id, status from delivery where id = any (array(select unnest($1::uuid[])));

-- name: cancel_work
-- $1 ids of locked rows that are not begun and not in doubt, $2 actor, $3 reason.
with gone as (
  delete from work where delivery_id = any (array(select unnest($1::uuid[])))
  returning delivery_id, account_id, reminder_id, attempts, state),
head as (
  update delivery d set status = 'cancelled', reason = $3, attempts = g.attempts, finished_at = clock_timestamp()
  from gone g where d.id = g.delivery_id)
insert into event (account_id, reminder_id, delivery_id, kind, from_state, to_state, actor, reason)
select g.account_id, g.reminder_id, g.delivery_id, 'cancelled', g.state, 'cancelled', $2, $3 from gone g;

-- name: call_off
-- $1 id of a locked row, $2 actor, $3 reason. This delivery alone was cancelled. What is in the air or in doubt stays,
-- and is not sent any more.
with called as (
  update work set called_off = true where delivery_id = $1::uuid and not called_off
  returning delivery_id, account_id, reminder_id, begun),
remembered as (
  update delivery set called_off = true where id = $1::uuid)
insert into event (account_id, reminder_id, delivery_id, kind, from_state, to_state, actor, reason)
select c.account_id, c.reminder_id, c.delivery_id, 'cancelled', 'sending', 'sending', $2, $3 from called c where c.begun;

-- name: close_work
-- $1 ids of locked rows in doubt that are not begun, $2 actor, $3 reason. They will not be sent again. Those that might
-- have been become uncertain; the fence rises, so that whoever holds them lets go.
with before as materialized (
  select delivery_id, state from work where delivery_id = any (array(select unnest($1::uuid[])))
    and not (closed and state in ('uncertain', 'held'))),
shut as (
  update work w
  set closed = true, fence = w.fence + 1, lease_until = null, worker = null,
      state = case when w.state in ('ready', 'waiting', 'leased') then 'uncertain' else w.state end,
      reason = case when w.state in ('ready', 'waiting', 'leased') then 'cancelled_in_doubt' else w.reason end,
      next_at = case when w.state in ('ready', 'waiting', 'leased') then clock_timestamp() else w.next_at end,
      since = case when w.state in ('ready', 'waiting', 'leased') then clock_timestamp() else w.since end
  where w.delivery_id = any (array(select delivery_id from before))
  returning w.delivery_id, w.account_id, w.reminder_id, w.state)
insert into event (account_id, reminder_id, delivery_id, kind, from_state, to_state, actor, reason)
select s.account_id, s.reminder_id, s.delivery_id, 'cancelled', b.state, s.state, $2, $3
from shut s join before b on b.delivery_id = s.delivery_id;
