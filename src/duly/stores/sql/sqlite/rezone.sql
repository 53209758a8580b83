-- Rezone: next occurrences whose moments are told by zone data, and reminders that stand still.

-- name: part_timing
-- The columns of a core.upcoming.Timing, in its order, of reminder r, its account a and its recipient p, if any.
r.id, a.name, r.caller_key, r.revision, r.next_due_at, r.deadline_at, r.notify_at, r.schedule, r.next_label,
case when r.follows_recipient then coalesce(p.zone, r.zone) else r.zone end, coalesce(r.late_until, r.deadline),
r.zone_data

-- name: zoned
-- By their ids, from where the page before ended: those whose moments another :version told.
select {part_timing}
from reminder r indexed by reminder_zoned
cross join account a on a.id = r.account_id
left join recipient p on p.id = r.recipient_id
where r.zone_data is not null and r.next_due_at is not null and r.status = 'active' and r.zone_data <> :version
  and r.id > :after
order by r.id limit :limit;

-- name: zoned_of_recipients
-- :recipients, 16 bytes each, as in moves.sql: whom the reminders follow.
with recursive place (at) as (select 1 union all select at + 16 from place where at + 16 < length(:recipients))
select {part_timing}
from (select distinct substr(:recipients, at, 16) as id from place) f
cross join reminder r indexed by reminder_following on r.recipient_id = f.id
cross join account a on a.id = r.account_id
left join recipient p on p.id = r.recipient_id
where r.follows_recipient = 1 and r.next_due_at is not null and r.zone_data is not null and r.status = 'active'
  and r.id > :after
order by r.id limit :limit;

-- name: retime
-- What was due under a restore guard may have been sent: it is left to the tick, and not moved out of the guard's reach.
update reminder set next_due_at = :due_at, deadline_at = :deadline_at, next_label = :label, zone_data = :zone_data,
  revision = revision + :moved
where id = :id and revision = :revision and next_due_at = :expected and status = 'active' and not exists (
  select 1 from guard g where next_due_at <= min(db_now(), coalesce(g.closed_at, db_now())));

-- name: recipient_zones
-- :refs, JSON list: the caller's names of recipients. Of those who are not deleted.
select p.ref, p.zone
from json_each(:refs) j cross join account a cross join recipient p on p.account_id = a.id and p.ref = j.value
where a.name = :account and p.deleted_at is null;

-- name: reminder_pause
-- The revision rises, so that no admission of before can begin.
update reminder set status = 'paused', revision = revision + 1 where id = :id and status = 'active';

-- name: paused_reminder
select {part_timing}
from reminder r
join account a on a.id = r.account_id
left join recipient p on p.id = r.recipient_id
where r.id = :id and r.status = 'paused';

-- name: reminder_resume
update reminder set status = case when :due_at is null then 'done' else 'active' end, next_due_at = :due_at,
  deadline_at = :deadline_at, next_label = :label, zone_data = :zone_data, revision = revision + 1
where id = :id and revision = :revision and status = 'paused';

-- name: reminder_wake
-- What waits only for the reminder is looked at again.
update work set next_at = db_now() where state = 'waiting' and reason = 'reminder_paused' and delivery_id in (
  select id from delivery where account_id = :account and reminder_id = :id);
