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
-- $1 rows at most, $2 actor. A lease that ended before anything began costs nothing. One that ended after is what
-- nobody knows: its attempt is unknown, unless a definite answer is on record already.
with ended as materialized (
  select delivery_id from work
  where state = 'leased' and lease_until <= statement_timestamp()
  order by delivery_id limit $1 for update skip locked),
back as (
  update work w
  set state = case when w.begun then 'uncertain' else 'ready' end,
      reason = case when w.begun then 'unknown_worker_lost' end,
      fence = w.fence + 1, granted = w.granted and not w.begun,
      doubt = w.doubt or w.begun and 'unknown' = coalesce((
        select x.outcome from attempt_result x where x.delivery_id = w.delivery_id and x.number = w.attempts), 'unknown'),
      first_unknown_at = case when w.begun then coalesce(w.first_unknown_at, (
        select a.started_at from attempt a where a.delivery_id = w.delivery_id and a.number = w.attempts), now())
        else w.first_unknown_at end,
      next_at = case when w.begun then clock_timestamp() else w.next_at end,
      begun = false, since = clock_timestamp(), lease_until = null, worker = null
  where w.delivery_id = any (array(select delivery_id from ended)) and w.state || '' = 'leased'
  returning w.delivery_id, w.account_id, w.reminder_id, w.attempts, w.state, w.reason),
lost as (
  insert into attempt_result (delivery_id, number, finished_at, outcome, class, stale)
  select b.delivery_id, b.attempts, clock_timestamp(), 'unknown', 'worker_lost', false
  from back b where b.state = 'uncertain'
  on conflict do nothing),
noted as (
  insert into event (account_id, reminder_id, delivery_id, kind, from_state, to_state, actor, reason)
  select b.account_id, b.reminder_id, b.delivery_id, 'lease_ended', 'sending', b.state, $2, b.reason
  from back b where b.state = 'uncertain')
select count(*) filter (where state = 'ready'), count(*) filter (where state = 'uncertain') from back;

-- name: sweep
-- $1 rows at most, $2 actor. A row in doubt does not expire as if it had not been sent.
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
  returning w.delivery_id, w.account_id, w.reminder_id, w.attempts, w.state),
head as (
  update delivery d
  set status = 'expired', reason = 'deadline_passed', attempts = g.attempts, finished_at = clock_timestamp()
  from gone g where d.id = g.delivery_id),
noted as (
  insert into event (account_id, reminder_id, delivery_id, kind, from_state, to_state, actor, reason)
  select account_id, reminder_id, delivery_id, 'deadline_passed', null, 'uncertain', $2, reason from kept
  union all
  select account_id, reminder_id, delivery_id, 'deadline_passed', state, 'expired', $2, 'deadline_passed' from gone)
select (select count(*) from gone), (select count(*) from kept);

-- name: doubtful
-- $1 rows at most, $2 lease in seconds, $3 providers. Uncertain rows under a fence of reconcile's own. An attempt whose result is not
-- on record may have been accepted; in doubt before any attempt (after a restore), one that nobody recorded counts.
with due as materialized (
  select delivery_id from work
  where state = 'uncertain' and next_at <= statement_timestamp() and provider = any ($3::text[])
  order by next_at limit $1 for update skip locked),
taken as (
  update work w set fence = w.fence + 1, next_at = clock_timestamp() + make_interval(secs => $2)
  where w.delivery_id = any (array(select delivery_id from due)) and w.state || '' = 'uncertain'
  returning w.*)
select w.delivery_id, w.fence, c.name, w.provider, k.address, w.attempts, w.spared,
       greatest((w.doubt and w.attempts = 0)::int, w.attempts - (
         select count(*) from attempt_result x where x.delivery_id = w.delivery_id and x.outcome <> 'unknown')),
       x.outcome, x.class, w.first_unknown_at, w.deadline_at, w.closed,
       exists (select from frozen f where f.delivery_id = w.delivery_id), w.reason
from taken w
join account c on c.id = w.account_id
join contact k on k.id = w.contact_id
left join attempt_result x on x.delivery_id = w.delivery_id and x.number = w.attempts;

-- name: probe_circuits
-- $1 providers. Each open circuit may be probed now.
with open as materialized (
  select provider, endpoint from budget
  where provider = any ($1::text[]) and circuit
  order by provider, endpoint for update)
update budget b set blocked_until = least(b.blocked_until, clock_timestamp())
from open where b.provider = open.provider and b.endpoint = open.endpoint and b.circuit;

-- name: next_step
-- $1 providers. Seconds until the next step of any open row, below zero if overdue; null if there is none. What waits
-- behind an open circuit does not count, and neither does what is held.
select extract(epoch from least(
  (select statement_timestamp()
   where exists (select from work w where w.state = 'ready' and w.provider = any ($1::text[]))),
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
