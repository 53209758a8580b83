-- Upkeep: every open row has somebody who moves it on. All of it skips what another transaction holds, and is bounded.
-- `statement_timestamp()` stands where an index is asked: it cannot be asked about `clock_timestamp()`.

-- name: promote
-- $1 rows at most.
with due as materialized (
  select delivery_id from work
  where state = 'waiting' and next_at <= statement_timestamp()
  order by next_at limit $1 for update skip locked)
update work w set state = 'ready', reason = null, since = clock_timestamp()
where w.delivery_id = any (array(select delivery_id from due)) and w.state || '' = 'waiting';

-- name: take_back
-- $1 rows at most, $2 actor, $3 deaths at most. A lease that ended before anything began costs nothing. One that ended
-- after is what nobody knows: its attempt is unknown, unless a definite answer is on record already.
--
-- Each was in the hands of somebody who died, so it is more suspect than before. For one that was alone there, a death
-- counts: at the last it is `gone`, dead, if it was surely not sent, and uncertain and closed otherwise.
with ended as materialized (
  select delivery_id, begun, deaths + (suspicion >= 3)::int >= $3 as last
  from work
  where state = 'leased' and lease_until <= statement_timestamp()
  order by delivery_id limit $1 for update skip locked),
back as (
  update work w
  set state = case when e.begun or e.last then 'uncertain' else 'ready' end,
      reason = case when e.last then 'killed_its_workers_in_doubt' when e.begun then 'unknown_worker_lost' end,
      closed = w.closed or e.last,
      suspicion = least(3, w.suspicion + 1), deaths = w.deaths + (w.suspicion >= 3)::int,
      fence = w.fence + 1, granted = w.granted and not e.begun,
      misses = case when e.begun then 0 else w.misses end, missed_at = case when not e.begun then w.missed_at end,
      doubt = w.doubt or e.begun and 'unknown' = coalesce((
        select x.outcome from attempt_result x where x.delivery_id = w.delivery_id and x.number = w.attempts), 'unknown'),
      first_unknown_at = case when e.begun then coalesce(w.first_unknown_at, (
        select a.started_at from attempt a where a.delivery_id = w.delivery_id and a.number = w.attempts), now())
        else w.first_unknown_at end,
      next_at = case when e.begun or e.last then clock_timestamp() else w.next_at end,
      begun = false, since = clock_timestamp(), lease_until = null, worker = null
  from ended e
  where w.delivery_id = any (array(select delivery_id from ended)) and w.delivery_id = e.delivery_id
    and w.state || '' = 'leased' and (e.begun or w.doubt or not e.last)
  returning w.delivery_id, w.account_id, w.reminder_id, w.attempts, w.state, w.reason, e.begun),
gone as (
  delete from work w using ended e
  where w.delivery_id = any (array(select delivery_id from ended)) and w.delivery_id = e.delivery_id
    and w.state || '' = 'leased' and not (e.begun or w.doubt or not e.last)
  returning w.delivery_id, w.account_id, w.reminder_id, w.attempts),
head as (
  update delivery d
  set status = 'dead', reason = 'killed_its_workers', attempts = g.attempts, finished_at = clock_timestamp()
  from gone g where d.id = g.delivery_id),
lost as (
  insert into attempt_result (delivery_id, number, finished_at, outcome, class, stale)
  select b.delivery_id, b.attempts, clock_timestamp(), 'unknown', 'worker_lost', false
  from back b where b.begun
  on conflict do nothing),
noted as (
  insert into event (account_id, reminder_id, delivery_id, kind, from_state, to_state, actor, reason)
  select b.account_id, b.reminder_id, b.delivery_id, 'lease_ended', case when b.begun then 'sending' else 'leased' end,
         b.state, $2, b.reason
  from back b where b.state = 'uncertain'
  union all
  select g.account_id, g.reminder_id, g.delivery_id, 'lease_ended', 'leased', 'dead', $2, 'killed_its_workers' from gone g)
select count(*) filter (where state = 'ready'), count(*) filter (where state = 'uncertain'), (select count(*) from gone)
from back;

-- name: suspects
-- $1 providers. One index probe for each of the three suspicions.
select p.provider, s.suspicion
from unnest($1::text[]) p (provider) cross join generate_series(1, 3) s (suspicion)
where exists (select from work w where w.state = 'ready' and w.suspicion > 0 and w.provider = p.provider
                and w.suspicion = s.suspicion)
order by 1, 2;

-- name: sweep
-- $1 rows at most, $2 actor. A row in doubt does not expire as if it had not been sent. What a row waited for stays on
-- record.
with late as materialized (
  select delivery_id, doubt from work
  where state in ('ready', 'waiting') and deadline_at <= statement_timestamp()
  order by deadline_at limit $1 for update skip locked),
kept as (
  update work w
  set state = 'uncertain', closed = true, reason = 'deadline_passed_in_doubt', next_at = clock_timestamp(),
      since = clock_timestamp()
  where w.delivery_id = any (array(select delivery_id from late where doubt)) and w.state || '' in ('ready', 'waiting')
  returning w.delivery_id, w.account_id, w.reminder_id, w.reason),
gone as (
  delete from work w
  where w.delivery_id = any (array(select delivery_id from late where not doubt))
    and w.state || '' in ('ready', 'waiting')
  returning w.delivery_id, w.account_id, w.reminder_id, w.attempts, w.state, w.reason, w.next_at),
head as (
  update delivery d
  set status = 'expired', reason = 'deadline_passed', attempts = g.attempts, finished_at = clock_timestamp()
  from gone g where d.id = g.delivery_id),
noted as (
  insert into event (account_id, reminder_id, delivery_id, kind, from_state, to_state, actor, reason, evidence)
  select account_id, reminder_id, delivery_id, 'deadline_passed', null, 'uncertain', $2, reason, null from kept
  union all
  select account_id, reminder_id, delivery_id, 'deadline_passed', state, 'expired', $2, 'deadline_passed',
         case when state = 'waiting' then jsonb_build_object(
           'waited_for', reason, 'until', to_char(next_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')) end
  from gone)
select (select count(*) from gone), (select count(*) from kept);

-- name: probe_circuits
-- $1 providers. Each open circuit may be probed now.
with open as materialized (
  select provider, endpoint from budget
  where provider = any ($1::text[]) and circuit
  order by provider, endpoint for update)
update budget b set blocked_until = least(b.blocked_until, clock_timestamp())
from open where b.provider = open.provider and b.endpoint = open.endpoint and b.circuit;

-- name: chosen
select chosen from installation;

-- name: chosen_keep
-- $1 what accounts have chosen.
update installation set chosen = $1;

-- name: chosen_wake
-- What waits for what accounts have chosen looks again now. $1 rows at most.
with chosen as materialized (
  select delivery_id from work
  where state = 'waiting' and reason in ('quiet_hours', 'frequency_cap') and next_at > statement_timestamp()
  limit $1 for update skip locked),
woken as (
  update work w set next_at = clock_timestamp()
  where w.delivery_id = any (array(select delivery_id from chosen)) and w.state || '' = 'waiting'
  returning 1)
select count(*) from woken;

-- name: next_step
-- $1 providers. Seconds until the next step of any open row, below zero if overdue; null if there is none. What waits
-- behind an open circuit does not count, and neither does what is held, nor what is ready under an open restore guard. The
-- end of a summary is shared at once, whoever sent it.
select extract(epoch from least(
  (select statement_timestamp()
   where exists (select from delivery where summarizes and status is not null and status is distinct from shared_as)),
  (select statement_timestamp()
   where not exists (select from guard where closed_at is null)
     and (exists (select from work w where w.state = 'ready' and w.suspicion = 0 and w.provider = any ($1::text[]))
          or exists (select from work w where w.state = 'ready' and w.suspicion > 0 and w.provider = any ($1::text[])))),
  (select min(w.lease_until) from work w where w.state = 'leased' and w.provider = any ($1::text[])),
  (select w.next_at from work w
   where w.state in ('waiting', 'uncertain') and w.provider = any ($1::text[])
     and not (w.state = 'waiting' and exists (
       select from budget b where b.provider = w.provider and b.endpoint = w.endpoint and b.circuit))
   order by w.next_at limit 1),
  (select w.deadline_at from work w
   where w.state in ('ready', 'waiting') and w.state = 'waiting' and w.provider = any ($1::text[]) and not exists (
     select from budget b where b.provider = w.provider and b.endpoint = w.endpoint and b.circuit)
   order by w.deadline_at limit 1)) - statement_timestamp())::float8;
