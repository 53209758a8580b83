-- Upkeep: what moves rows on that no worker holds, and what an operator takes back.
-- A partial index is used only where its own condition stands in the statement, so it is repeated.

-- name: promote
update work set state = 'ready', reason = null, since = db_now() where delivery_id in (
  select delivery_id from work indexed by work_next
  where state in ('waiting', 'uncertain') and state = 'waiting' and next_at <= db_now()
  order by next_at limit :limit);

-- name: doubtful_due
select w.delivery_id, w.fence, a.name, w.provider, k.address, w.attempts, w.spared,
       max(w.attempts - (select count(*) from attempt_result r where r.delivery_id = w.delivery_id and r.outcome <> 'unknown'),
           w.doubt and w.attempts = 0),
       l.outcome, l.class, w.first_unknown_at, w.deadline_at, w.closed,
       exists (select 1 from frozen f where f.delivery_id = w.delivery_id), w.reason
from work w indexed by work_next
cross join account a on a.id = w.account_id
cross join contact k on k.id = w.contact_id
left join attempt_result l on l.delivery_id = w.delivery_id and l.number = w.attempts
where w.state in ('waiting', 'uncertain') and w.state = 'uncertain' and w.next_at <= db_now()
  and w.provider in (select value from json_each(:providers))
order by w.next_at limit :limit;

-- name: doubtful_lease
update work set fence = fence + 1, next_at = ? where delivery_id = ?;

-- name: next_ready
select exists (select 1 from work indexed by work_ready where state = 'ready' and provider = :provider);

-- name: next_lease_end
select lease_until from work indexed by work_leased where state = 'leased' and provider = :provider order by lease_until limit 1;

-- name: next_look
-- The first waiting or uncertain row's time; rows behind an open circuit wait for somebody to mend it.
select w.next_at from work w indexed by work_next
where w.state in ('waiting', 'uncertain') and w.provider = :provider and (w.state = 'uncertain' or not exists (
  select 1 from budget b where b.provider = w.provider and b.endpoint = w.endpoint and b.circuit))
order by w.next_at limit 1;

-- name: next_expiry
select w.deadline_at from work w indexed by work_expiry
where w.state in ('ready', 'waiting') and w.state = 'waiting' and w.provider = :provider and not exists (
  select 1 from budget b where b.provider = w.provider and b.endpoint = w.endpoint and b.circuit)
order by w.deadline_at limit 1;

-- name: reminder_cancel
update reminder set status = 'cancelled', revision = revision + 1, next_due_at = null
where id = :id and status <> 'cancelled';

-- name: reminder_seen
select account_id, status from reminder where id = :id;

-- name: finals_of_reminder
select count(*) from delivery where account_id = :account and reminder_id = :reminder and status is not null;
