-- Looking: what reconcile claims, and all that the ladder asks of a row in doubt. Ids come as in moves.sql.
-- A partial index is used only where its own condition stands in the statement, so it is repeated.

-- name: uncertain_due
select delivery_id from work indexed by work_next
where state in ('waiting', 'uncertain') and state = 'uncertain' and next_at <= db_now()
  and provider in (select value from json_each(:providers))
order by next_at limit :limit;

-- name: held_due
-- Its alarm or its end has come.
select delivery_id from work indexed by work_held
where state = 'held' and next_at <= db_now() and provider in (select value from json_each(:providers))
order by next_at limit :limit;

-- name: doubtful_lease
update work set fence = fence + 1, next_at = ? where delivery_id = ?;

-- name: doubtful_seen
-- :ids. The latest attempt is joined (l), and the latest unknown one that is on record (t, u).
with recursive place (at) as (select 1 union all select at + 16 from place where at + 16 < length(:ids))
select w.delivery_id, w.fence, w.state, w.since, a.name, w.provider, k.address, w.attempts, w.spared,
       w.attempts + w.restored - (
         select count(*) from attempt_result x
         where x.delivery_id = w.delivery_id and x.number between 1 and w.attempts and (x.outcome <> 'unknown' or x.covered)),
       t.number, u.finished_at,
       (select x.request_id from attempt_result x
        where x.delivery_id = w.delivery_id and x.outcome = 'unknown' and not x.covered and x.request_id is not null
        order by x.number desc limit 1),
       l.outcome, l.class, w.first_unknown_at, w.misses, w.missed_at, w.due_at, w.deadline_at, w.closed, w.restored, w.alarmed,
       case when r.status = 'cancelled' then 'reminder_cancelled' when w.called_off then 'called_off'
            else {part_objection} end, w.reason
from place
cross join work w on w.delivery_id = substr(:ids, place.at, 16)
cross join account a on a.id = w.account_id
cross join reminder r on r.id = w.reminder_id
cross join recipient p on p.id = w.recipient_id
cross join contact k on k.id = w.contact_id
left join attempt_result l on l.delivery_id = w.delivery_id and l.number = w.attempts
left join attempt t on t.delivery_id = w.delivery_id and t.number = (
  select o.number from attempt o left join attempt_result x on x.delivery_id = o.delivery_id and x.number = o.number
  where o.delivery_id = w.delivery_id and (x.outcome is null or x.outcome = 'unknown' and not x.covered)
  order by o.number desc limit 1)
left join attempt_result u on u.delivery_id = t.delivery_id and u.number = t.number;
