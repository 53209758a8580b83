-- Fold: late deliveries are taken up by a summary, and its end becomes theirs. All of it under the writer's turn.

-- name: foldable
-- A row that this worker has in its hands, with what gathers for it. Nothing where that is in somebody's hands.
select a.name, m.channel, m.recipient_id, m.contact_id, m.due_at, m.deadline_at, m.folds,
       g.delivery_id, g.reminder_id, r.data, g.due_at, g.deadline_at, g.next_at
from work m
cross join account a on a.id = m.account_id
cross join reminder o on o.id = m.reminder_id and o.revision = :revision
left join work g indexed by work_gathering on g.account_id = m.account_id and g.recipient_id = m.recipient_id
  and g.contact_id = m.contact_id and g.provider = m.provider and g.gathering = :bundle
left join reminder r on r.id = g.reminder_id
where m.delivery_id = :id and m.fence = :fence and m.state = 'leased' and not m.begun and not m.doubt and m.worker = :worker
  and (g.delivery_id is null or g.state in ('ready', 'waiting'));

-- name: summary_let_go
-- Of a row that is to be folded. In doubt, only a summary's own bytes may go out, and nothing of what was called off:
-- another one gathers in its place.
update work set gathering = null
where gathering = :bundle and (doubt or called_off or state in ('uncertain', 'held')) and delivery_id in (
  select g.delivery_id from work m
  cross join work g indexed by work_gathering on g.account_id = m.account_id and g.recipient_id = m.recipient_id
    and g.contact_id = m.contact_id and g.provider = m.provider and g.gathering = :bundle
  where m.delivery_id = :id);

-- name: summary_add_work
-- :lender lends it what it does not have of its own. Nothing if it was there before.
insert into work (delivery_id, account_id, provider, lane, state, reason, since, next_at, due_at, deadline_at, occurrence, channel,
  reminder_id, recipient_id, contact_id, endpoint, gathering)
select :id, w.account_id, w.provider, w.lane, 'waiting', 'summary_gathers', db_now(), :send_at, :due_at, :deadline_at, 'once',
  w.channel, :reminder, w.recipient_id, w.contact_id, w.endpoint, :bundle
from work w where w.delivery_id = :lender and not exists (select 1 from delivery d where d.id = :id);

-- name: summary_add_reminder
insert into reminder (id, account_id, caller_key, body_hash, recipient_id, inline, channels, template, data, "to", notify_at,
  deadline, deadline_at, late, lane, purpose, status, quiet_hours, created_at)
select w.reminder_id, w.account_id, :key, :body_hash, w.recipient_id, 0, json_array(w.channel), :template, :data, r."to",
  :late_from, :late_from, w.deadline_at, 'send_marked', w.lane, r.purpose, 'done', r.quiet_hours, db_now()
from work w cross join work l on l.delivery_id = :lender cross join reminder r on r.id = l.reminder_id
where w.delivery_id = :id;

-- name: summary_add_delivery
insert into delivery (id, account_id, reminder_id, recipient_id, contact_id, endpoint, occurrence, channel, provider, lane,
  due_at, deadline_at, summarizes, created_at)
select w.delivery_id, w.account_id, w.reminder_id, w.recipient_id, w.contact_id, w.endpoint, w.occurrence, w.channel, w.provider,
  w.lane, w.due_at, w.deadline_at, 1, db_now()
from work w where w.delivery_id = :id;

-- name: summary_add_event
insert into event (at, account_id, reminder_id, delivery_id, kind, to_state, actor, reason)
select db_now(), w.account_id, w.reminder_id, w.delivery_id, 'summary_made', 'waiting', :worker, 'summary_gathers'
from work w where w.delivery_id = :id;

-- name: summary_extend_work
update work set due_at = :due_at, deadline_at = :deadline_at, gathering = :bundle,
  next_at = case when reason = 'summary_gathers' then min(next_at, :send_at) else next_at end
where delivery_id = :id;

-- name: summary_extend_delivery
update delivery set due_at = :due_at, deadline_at = :deadline_at where id = :id;

-- name: summary_extend_reminder
update reminder set data = :data, deadline_at = :deadline_at, revision = revision + 1 where id = :reminder;

-- name: work_count_fold
update work set folds = folds + 1 where delivery_id = ?;

-- name: work_count_return
update work set returned = returned + 1 where delivery_id = ?;

-- name: delivery_status
select status from delivery where id = :id;

-- name: delivery_fold
update delivery set summary_id = ? where id = ?;

-- name: folded_of_reminder
select {part_row}
from reminder r
cross join delivery d on d.account_id = r.account_id and d.reminder_id = r.id
cross join work w on w.delivery_id = d.id
where r.id = :reminder and w.state = 'folded';

-- name: summary_of
select summary_id from delivery where id = :id;

-- name: summaries_ended
-- Those whose end is not shared yet.
select id, status, reason, finished_at from delivery indexed by delivery_ended_summary
where summarizes and status is not null and status is not shared_as order by id limit :limit;

-- name: folded_into
-- What a summary carries and whose end it shares: all that is folded into it and, once it is known that it was accepted,
-- whatever of it is open and not in the air.
select {part_row}
from delivery d indexed by delivery_summary cross join work w on w.delivery_id = d.id
where d.summary_id = :summary and (w.state = 'folded' or :accepted and not w.begun);

-- name: carried_and_ended
-- What a summary has carried, and that ended in another way than it was accepted.
select d.id, d.account_id, d.reminder_id, d.status, d.attempts, d.request_id, d.due_at
from delivery d indexed by delivery_summary
where d.summary_id = :summary and d.status is not null and d.status <> 'sent';

-- name: summary_shared
update delivery set shared_as = status where id = ?;

-- name: next_fate
select exists (
  select 1 from delivery indexed by delivery_ended_summary
  where summarizes and status is not null and status is not shared_as);
