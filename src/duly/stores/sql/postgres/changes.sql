-- Redrive: dead letters return to work.

-- name: requeue
-- $1 ids, $2 actor, $3 reason. The head is locked: acceptance that comes at this moment waits, and ends what it then
-- finds. What was due before a guard was closed may have been sent by what that guard's backup had forgotten. The fence
-- went with the work: seconds are more than any fence that somebody may remember. A summary is not redriven, for what was
-- in it has gone its own ways since; and what was in one is not folded again.
with heads as materialized (
  select d.*, exists (select from guard g where g.closed_at is null or d.due_at <= g.closed_at) as restored
  from delivery d
  where d.id = any (array(select unnest($1::uuid[]))) and d.status in ('dead', 'rejected') and not d.summarizes
  order by d.id for update),
opened as (
  update delivery d set status = null, reason = null, finished_at = null
  where d.id = any (array(select id from heads))),
added as (
  insert into work (delivery_id, account_id, provider, lane, state, fence, attempts, spared, doubt, restored, called_off,
                    first_unknown_at, reason, next_at, due_at, deadline_at, occurrence, channel, reminder_id,
                    recipient_id, contact_id, endpoint, returned)
  select h.id, h.account_id, h.provider, h.lane, case when h.restored then 'uncertain' else 'ready' end,
         greatest(extract(epoch from now() - timestamptz '2020-01-01 00:00:00+00')::int,
                  1 + (select max(a.fence) from attempt a where a.delivery_id = h.id)),
         h.attempts, h.attempts, h.restored, h.restored, h.called_off, case when h.restored then h.due_at end,
         case when h.restored then 'restored' end, clock_timestamp(), h.due_at, h.deadline_at, h.occurrence, h.channel,
         h.reminder_id, h.recipient_id, h.contact_id, h.endpoint, case when h.summary_id is null then 0 else 1000 end
  from heads h),
noted as (
  insert into event (account_id, reminder_id, delivery_id, kind, from_state, to_state, actor, reason)
  select h.account_id, h.reminder_id, h.id, 'redriven', h.status, case when h.restored then 'uncertain' else 'ready' end,
         $2, $3
  from heads h)
select id from heads;
