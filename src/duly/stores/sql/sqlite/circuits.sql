-- Circuits: the doors before an endpoint. The rules are in circuits.py and core/budget.py.

-- name: circuit_block
-- Of two moments the later one counts. An open circuit keeps its own reason.
insert into budget (provider, endpoint, updated_at, blocked_until, block_reason)
values (:provider, :endpoint, db_now(), :until, :reason)
on conflict (provider, endpoint) do update set
  block_reason = case when circuit or blocked_until > excluded.blocked_until then block_reason else excluded.block_reason end,
  blocked_until = max(coalesce(blocked_until, 0), excluded.blocked_until);

-- name: circuit_failures
select failures from budget where provider = :provider and endpoint = :endpoint;

-- name: circuit_open
insert into budget (provider, endpoint, updated_at, blocked_until, block_reason, circuit, failures)
values (:provider, :endpoint, db_now(), :until, :reason, 1, 1)
on conflict (provider, endpoint) do update set
  circuit = 1, failures = failures + 1, block_reason = excluded.block_reason,
  blocked_until = max(coalesce(blocked_until, 0), excluded.blocked_until)
where not (circuit and blocked_until > db_now());

-- name: circuit_close
update budget set circuit = 0, failures = 0, blocked_until = null, block_reason = null
where provider = :provider and endpoint = :endpoint and circuit;

-- name: circuit_wake
update work set next_at = db_now() where delivery_id in (
  select delivery_id from work indexed by work_waiting
  where state = 'waiting' and provider = :provider and endpoint = :endpoint
    and reason in (select value from json_each(:reasons)));

-- name: circuits_open
select provider, endpoint from budget where provider = :provider and circuit;

-- name: circuit_probe
update budget set blocked_until = min(blocked_until, db_now()) where provider = :provider and endpoint = :endpoint;
