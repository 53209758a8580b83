-- Rezone: next occurrences whose moments are told by zone data, and reminders that stand still.

-- name: part_timing
-- The columns of a core.upcoming.Timing, in its order, of reminder r, its account a and its recipient p, if any.
r.id, a.name, r.caller_key, r.revision, r.next_due_at, r.deadline_at, r.notify_at, r.schedule, r.next_label,
case when r.follows_recipient then coalesce(p.zone, r.zone) else r.zone end, coalesce(r.late_until, r.deadline),
r.zone_data

-- name: zoned
-- $1 the last id of the page before, $2 rows at most, $3 version: those whose moments another one told.
select {part_timing}
from reminder r
join account a on a.id = r.account_id
left join recipient p on p.id = r.recipient_id
where r.zone_data is not null and r.next_due_at is not null and r.status = 'active' and r.zone_data <> $3
  and r.id > $1::uuid
order by r.id limit $2;

-- name: zoned_of_recipients
-- $1 the last id of the page before, $2 rows at most, $3 recipients whom the reminders follow.
select {part_timing}
from reminder r
join account a on a.id = r.account_id
left join recipient p on p.id = r.recipient_id
where r.follows_recipient and r.next_due_at is not null and r.recipient_id = any (array(select unnest($3::uuid[])))
  and r.zone_data is not null and r.status = 'active' and r.id > $1::uuid
order by r.id limit $2;

-- name: lock_timings
-- $1 ids. In key order, as everybody who locks several reminders.
select id from reminder where id = any (array(select unnest($1::uuid[]))) order by id for update;

-- name: retime
-- $1 ids of locked reminders, $2 revisions seen, $3 due times seen, $4 due times, $5 deadlines, $6 labels, $7 versions of
-- the zone data, $8 evidence where the moment moves, $9 actor, $10 reason. Returns the ids that were written. What was
-- due under a restore guard may have been sent: it is left to the tick, and not moved out of the guard's reach.
with r as (
  update reminder r
  set next_due_at = u.due, deadline_at = u.deadline, next_label = u.label, zone_data = u.zone_data,
      revision = r.revision + (u.evidence is not null)::int
  from unnest($1::uuid[], $2::int[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[], $6::text[], $7::text[],
              $8::text[])
    u (id, revision, expected, due, deadline, label, zone_data, evidence)
  where r.id = any (array(select unnest($1::uuid[])))
    and r.id = u.id and r.next_due_at + interval '0' = u.expected and r.revision = u.revision and r.status = 'active'
    and not exists (
      select from guard g where r.next_due_at <= least(clock_timestamp(), coalesce(g.closed_at, 'infinity')))
  returning r.id, r.account_id, u.evidence),
noted as (
  insert into event (account_id, reminder_id, kind, from_state, to_state, actor, reason, evidence)
  select r.account_id, r.id, 'retimed', 'active', 'active', $9, $10, r.evidence::jsonb
  from r where r.evidence is not null)
select id from r;

-- name: recipient_zones
-- $1 account, $2 the caller's names of recipients. Of those who are not deleted.
select p.ref, p.zone from recipient p
where p.account_id = (select id from account where name = $1) and p.ref = any ($2::text[]) and p.deleted_at is null;

-- name: pause_reminder
-- $1 id, $2 actor, $3 reason. The revision rises, so that no admission of before can begin.
with r as (
  update reminder set status = 'paused', revision = revision + 1 where id = $1::uuid and status = 'active'
  returning id, account_id)
insert into event (account_id, reminder_id, kind, from_state, to_state, actor, reason)
select r.account_id, r.id, 'paused', 'active', 'paused', $2, $3 from r
returning account_id;

-- name: paused_reminder
-- $1 id.
select {part_timing}
from reminder r
join account a on a.id = r.account_id
left join recipient p on p.id = r.recipient_id
where r.id = $1::uuid and r.status = 'paused';

-- name: resume_reminder
-- $1 id, $2 revision seen, $3 due time or null, $4 deadline, $5 label, $6 version of the zone data, $7 actor, $8 reason.
-- What waits only for the reminder is looked at again.
with r as (
  update reminder
  set status = case when $3::timestamptz is null then 'done' else 'active' end, next_due_at = $3::timestamptz,
      deadline_at = $4::timestamptz, next_label = $5, zone_data = $6, revision = revision + 1
  where id = $1::uuid and revision = $2 and status = 'paused'
  returning id, account_id, status),
woken as (
  update work w set next_at = clock_timestamp()
  from r join delivery d on d.account_id = r.account_id and d.reminder_id = r.id
  where w.delivery_id = d.id and w.state = 'waiting' and w.reason = 'reminder_paused')
insert into event (account_id, reminder_id, kind, from_state, to_state, actor, reason)
select r.account_id, r.id, 'resumed', 'paused', r.status, $7, $8 from r
returning reminder_id;
