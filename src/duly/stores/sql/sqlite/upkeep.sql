-- Upkeep: what moves rows on that no worker holds, and what an operator takes back.
-- A partial index is used only where its own condition stands in the statement, so it is repeated.

-- name: promote
update work set state = 'ready', reason = null, since = db_now() where delivery_id in (
  select delivery_id from work indexed by work_next
  where state in ('waiting', 'uncertain') and state = 'waiting' and next_at <= db_now()
  order by next_at limit :limit);

-- name: chosen
select chosen from installation;

-- name: chosen_keep
update installation set chosen = :chosen;

-- name: chosen_wake
-- What waits for what accounts have chosen looks again now.
update work set next_at = db_now() where delivery_id in (
  select delivery_id from work indexed by work_next
  where state in ('waiting', 'uncertain') and state = 'waiting' and next_at > db_now()
    and reason in ('quiet_hours', 'frequency_cap')
  order by next_at limit :limit);

-- name: suspects
select s.suspicion from (select 1 as suspicion union all select 2 union all select 3) s
where exists (
  select 1 from work w indexed by work_suspects
  where w.state = 'ready' and w.suspicion <> 0 and w.provider = :provider and w.suspicion = s.suspicion);

-- name: next_ready
-- Under a restore guard what is ready waits for an operator.
select not exists (select 1 from guard indexed by guard_open where closed_at is null) and (
  exists (select 1 from work indexed by work_ready where state = 'ready' and suspicion = 0 and provider = :provider)
  or exists (select 1 from work indexed by work_suspects where state = 'ready' and suspicion <> 0 and provider = :provider));

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

-- name: cancel_again
-- It was cancelled before, and stays so: who wanted it once more, and why, is kept. :delivery null: the reminder itself.
insert into event (at, account_id, reminder_id, delivery_id, kind, from_state, to_state, actor, reason)
select db_now(), :account, :reminder, :delivery, 'cancelled', 'cancelled', 'cancelled', :actor, :reason
where not exists (
  select 1 from event e where e.reminder_id = :reminder and e.delivery_id is :delivery and e.kind = 'cancelled'
    and e.actor = :actor and e.reason = :reason);

-- name: reminder_seen
select account_id, status from reminder where id = :id;

-- name: reminder_to_cancel
select account_id, status, next_due_at is not null from reminder where id = :id;

-- name: finals_of_reminder
-- How many, and how many of them were sent.
select count(*), count(*) filter (where status = 'sent') from delivery
where account_id = :account and reminder_id = :reminder and status is not null;
