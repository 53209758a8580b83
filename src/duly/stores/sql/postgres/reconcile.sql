-- Reconcile: rows in doubt under a fence of its own, and what its looks have told.

-- name: take_doubtful
-- $1 rows at most, $2 lease in seconds, $3 providers. Held rows, of which an alarm or the end has come, are few: they
-- come first. Each kind has an index of its own.
with due as materialized (
  select delivery_id from (
    select delivery_id from work
    where state = 'held' and next_at <= statement_timestamp() and provider = any ($3::text[])
    order by next_at limit $1 for update skip locked) h
  union all
  select delivery_id from (
    select delivery_id from work
    where state = 'uncertain' and next_at <= statement_timestamp() and provider = any ($3::text[])
    order by next_at limit $1 for update skip locked) u
  limit $1)
update work w set fence = w.fence + 1, next_at = clock_timestamp() + make_interval(secs => $2)
where w.delivery_id = any (array(select delivery_id from due)) and w.state || '' in ('uncertain', 'held')
returning w.delivery_id;

-- name: doubtful
-- $1 ids. What the ladder asks of rows in doubt. An attempt whose result is not on record may have been accepted; after
-- a restore, one that nobody remembers counts, and it may have been made until the row came to be in doubt of it.
select w.delivery_id, w.fence, w.state, w.since, c.name, w.provider, k.address, w.attempts, w.spared,
       w.attempts + w.restored::int - (
         select count(*) from attempt_result x
         where x.delivery_id = w.delivery_id and x.number between 1 and w.attempts
           and (x.outcome <> 'unknown' or x.covered)),
       u.number, case when w.restored then greatest(u.finished_at, w.since) when u.number is not null
                      then coalesce(u.finished_at, w.since) end,
       (select x.request_id from attempt_result x
        where x.delivery_id = w.delivery_id and x.outcome = 'unknown' and not x.covered and x.request_id is not null
        order by x.number desc limit 1),
       l.outcome, l.class, w.first_unknown_at, w.misses, w.missed_at, w.due_at, w.deadline_at, w.closed, w.restored,
       w.alarmed, case when r.status = 'cancelled' then 'reminder_cancelled' when w.called_off then 'called_off'
                       else {part_objection} end, w.reason,
       f.number, f.destination, f.body, f.template, f.template_version,
       f.reminder_revision, f.recipient_revision, f.contact_revision
from work w
join account c on c.id = w.account_id
join reminder r on r.id = w.reminder_id
join recipient p on p.id = w.recipient_id
join contact k on k.id = w.contact_id
left join attempt_result l on l.delivery_id = w.delivery_id and l.number = w.attempts
left join lateral (
  select t.number, x.finished_at
  from attempt t left join attempt_result x on x.delivery_id = t.delivery_id and x.number = t.number
  where t.delivery_id = w.delivery_id and (x.outcome is null or x.outcome = 'unknown' and not x.covered)
  order by t.number desc limit 1) u on true
left join lateral (
  select z.number, z.destination, z.body, z.template, z.template_version,
         z.reminder_revision, z.recipient_revision, z.contact_revision
  from frozen z where z.delivery_id = w.delivery_id
  order by z.number desc limit 1) f on true
where w.delivery_id = any (array(select unnest($1::uuid[])))
order by w.next_at, w.delivery_id;

-- name: looked
-- Rows that stay where they are. $1 ids, $2 fences, $3 next at, $4 misses, $5 whether this look is a miss that counts,
-- $6 whether the alarm is raised, $7 actor. Repeated, it moves no miss and raises no second alarm.
with seen as materialized (
  select w.delivery_id, w.fence, w.state, w.alarmed from work w
  where w.delivery_id = any (array(select unnest($1::uuid[]))) and w.state in ('uncertain', 'held')
  order by w.delivery_id for update),
moved as (
  update work w
  set next_at = u.next_at, misses = u.misses, alarmed = w.alarmed or u.alarmed and w.state || '' = 'held',
      missed_at = case when u.missed and u.misses > w.misses then clock_timestamp() else w.missed_at end
  from unnest($1::uuid[], $2::int[], $3::timestamptz[], $4::int[], $5::bool[], $6::bool[])
    u (delivery_id, fence, next_at, misses, missed, alarmed)
  where w.delivery_id = any (array(select delivery_id from seen))
    and w.delivery_id = u.delivery_id and w.fence = u.fence and w.state || '' in ('uncertain', 'held')
  returning w.delivery_id, w.account_id, w.reminder_id, w.alarmed),
noted as (
  insert into event (account_id, reminder_id, delivery_id, kind, from_state, to_state, actor, reason)
  select m.account_id, m.reminder_id, m.delivery_id, 'hold_alarm', 'held', 'held', $7, 'hold_alarm'
  from moved m where m.alarmed and m.delivery_id in (select delivery_id from seen where not alarmed))
select delivery_id from moved;

-- name: held
-- $1 id. Whether it is held.
select exists (select from work where delivery_id = $1::uuid and state = 'held');
