-- Settle: outcomes of many deliveries in one commit. Signals first, because budgets are locked before work.

-- name: settle
-- $1 ids, $2 fences, $3 attempt numbers, $4 outcomes, $5 states, $6 reasons, $7 next at, $8 finished at, $9 closed,
-- $10 spared, $11 classes, $12 http status, $13 request ids, $14 retry after, $15 excerpts, $16 details.
--
-- `moved` stay open, `gone` end. A row under its fence moves as it is told, but where an attempt may have been accepted
-- it ends only as sent or unconfirmed: any other end leaves it uncertain, with the rungs that send closed. Acceptance
-- needs no fence and no work: it ends open rows of whoever holds them, and overturns other ends; then an event tells who
-- knew. Of a delivery that is not there nothing is recorded: it may come to be, and would find a foreign answer. A result goes from
-- none or unknown (covered or not) to a definite one, and stays. Whoever settles has lived: his rows are suspect no more.
with r as (
  select u.*, u.state in ('sent', 'unconfirmed') as doubtless,
         u.state not in ('ready', 'waiting', 'uncertain', 'held') as final
  from unnest($1::uuid[], $2::int[], $3::int[], $4::text[], $5::text[], $6::text[], $7::timestamptz[],
              $8::timestamptz[], $9::bool[], $10::bool[], $11::text[], $12::int[], $13::text[], $14::float8[],
              $15::text[], $16::text[])
    u (delivery_id, fence, number, outcome, state, reason, next_at, finished_at, closed, spared,
       class, http_status, request_id, retry_after, excerpt, detail)),
moved as (
  update work w
  set state = case when r.final then 'uncertain' else r.state end,
      reason = case when r.final then r.reason || '_in_doubt' else r.reason end,
      next_at = coalesce(r.next_at, clock_timestamp()), since = clock_timestamp(),
      begun = false, lease_until = null, worker = null, granted = false,
      spared = w.spared + r.spared::int, suspicion = 0, deaths = 0,
      misses = case when r.outcome = 'unknown' then 0 else w.misses end,
      missed_at = case when r.outcome <> 'unknown' then w.missed_at end,
      closed = w.closed or r.closed or r.final,
      doubt = w.doubt or r.outcome = 'unknown',
      first_unknown_at = case when r.outcome = 'unknown' then coalesce(w.first_unknown_at, (
        select a.started_at from attempt a where a.delivery_id = r.delivery_id and a.number = r.number))
        else w.first_unknown_at end
  from r
  where w.delivery_id = any (array(select unnest($1::uuid[])))
    and w.delivery_id = r.delivery_id and w.fence = r.fence and w.state || '' = 'leased' and w.begun
    and w.attempts = r.number and r.outcome <> 'accepted'
    and (not r.final or not r.doubtless and (w.doubt or r.outcome = 'unknown'))
  returning w.delivery_id, not r.final as as_told),
gone as (
  delete from work w using r
  where w.delivery_id = any (array(select unnest($1::uuid[])))
    and w.delivery_id = r.delivery_id
    and (r.outcome = 'accepted'
         or w.fence = r.fence and w.state || '' = 'leased' and w.begun and w.attempts = r.number and r.final
            and (r.doubtless or not (w.doubt or r.outcome = 'unknown')))
  returning w.delivery_id, w.fence <> r.fence as overtaken,
            w.fence = r.fence and w.state = 'leased' and w.begun and w.attempts = r.number as its_own,
            case when w.begun then 'sending' else w.state end as was),
head as (
  update delivery d
  set status = case when r.outcome = 'accepted' then 'sent' else r.state end, reason = r.reason,
      attempts = greatest(d.attempts, r.number), request_id = coalesce(r.request_id, d.request_id),
      finished_at = r.finished_at
  from r
  where d.id = any (array(select unnest($1::uuid[])))
    and d.id = r.delivery_id
    and (r.outcome = 'accepted' and d.status is distinct from 'sent'
         or d.status is null and d.id in (select delivery_id from gone))
  returning d.id, d.account_id, d.reminder_id, r.number, r.reason, r.fence, r.outcome, r.request_id, d.id not in (select delivery_id from gone) as late,
            case when d.id not in (select delivery_id from gone)
            then (select o.status from delivery o where o.id = d.id) end as was),
recorded as (
  insert into attempt_result (delivery_id, number, finished_at, outcome, class, http_status, request_id, retry_after,
                              excerpt, detail, stale)
  select r.delivery_id, r.number, r.finished_at, r.outcome, r.class, r.http_status, r.request_id, r.retry_after,
         r.excerpt, r.detail,
         r.delivery_id not in (select delivery_id from moved) and r.delivery_id not in (select id from head)
         and r.outcome <> 'accepted'
  from r
  where r.delivery_id in (select delivery_id from moved) or r.delivery_id in (select id from head)
     or exists (select from delivery d where d.id = r.delivery_id)
  on conflict (delivery_id, number) do update
  set finished_at = excluded.finished_at, outcome = excluded.outcome, class = excluded.class,
      http_status = excluded.http_status, request_id = excluded.request_id, retry_after = excluded.retry_after,
      excerpt = excluded.excerpt, detail = excluded.detail, stale = excluded.stale,
      covered = false
  where attempt_result.outcome = 'unknown' and excluded.outcome <> 'unknown'
  returning delivery_id, stale),
noted as (
  insert into event (account_id, reminder_id, delivery_id, kind, from_state, to_state, actor, reason, evidence)
  select h.account_id, h.reminder_id, h.id, case when h.late then 'corrected' else 'accepted' end,
         case when h.late then h.was else g.was end, 'sent',
         coalesce(case when h.fence >= 0 then a.worker end, 'evidence'), h.reason,
         jsonb_build_object('request_id', h.request_id, 'attempt', h.number)
  from head h
  left join gone g on g.delivery_id = h.id
  left join attempt a on a.delivery_id = h.id and a.number = h.number
  where h.late or h.outcome = 'accepted' and not g.its_own)
select (select array_agg(delivery_id) from moved where as_told), (select array_agg(id) from head),
       (select array_agg(delivery_id) from gone where overtaken),
       (select count(*) from recorded where stale), (select array_agg(id) from head where late);

-- name: standing
-- Of rows that `settle` did not move: those that it had moved before, and that still stand there (a repeated settle).
-- $1 ids, $2 attempt numbers, $3 outcomes, $4 states.
select u.id
from unnest($1::uuid[], $2::int[], $3::text[], $4::text[]) u (id, number, outcome, state)
join attempt_result x on x.delivery_id = u.id and x.number = u.number and x.outcome = u.outcome and not x.stale
join ledger l on l.id = u.id and l.status = u.state;

-- name: end_requeued
-- $1 ids that acceptance found final. One that was being requeued at that moment has work that `settle` could not see.
delete from work where delivery_id = any (array(select unnest($1::uuid[])));

-- name: lock_sent
-- $1 ids in key order. Two who note the same double acceptance wait for each other.
select id from delivery where id = any (array(select unnest($1::uuid[]))) and status = 'sent' order by id for update;

-- name: note_doubled
-- Deliveries that were accepted before under another request id: somebody has it twice. Once per delivery and id.
-- $1 ids, $2 attempt numbers, $3 request ids.
insert into event (account_id, reminder_id, delivery_id, kind, from_state, to_state, actor, reason, evidence)
select d.account_id, d.reminder_id, d.id, 'double_acceptance', 'sent', 'sent', coalesce(a.worker, 'evidence'),
       'double_acceptance',
       jsonb_build_object('request_ids', jsonb_build_array(d.request_id, u.request_id), 'attempt', u.number)
from unnest($1::uuid[], $2::int[], $3::text[]) u (id, number, request_id)
join delivery d on d.id = u.id and d.status = 'sent' and d.request_id <> u.request_id
left join attempt a on a.delivery_id = u.id and a.number = u.number
where not exists (
  select from event e
  where e.reminder_id = d.reminder_id and e.delivery_id = d.id and e.kind = 'double_acceptance'
    and e.evidence -> 'request_ids' ->> 1 = u.request_id)
returning id;

-- name: name_sent
-- Sent under no name (an operator said so): the first one that comes is its name. $1 ids, $2 request ids.
update delivery d set request_id = u.request_id
from unnest($1::uuid[], $2::text[]) u (id, request_id)
where d.id = any (array(select unnest($1::uuid[]))) and d.id = u.id and d.status = 'sent' and d.request_id is null;

-- name: recount
-- Acceptance of an attempt that later ones had overtaken: the head counts them all. $1 ids.
update delivery d set attempts = (select coalesce(max(a.number), 0) from attempt a where a.delivery_id = d.id)
where d.id = any (array(select unnest($1::uuid[])));

-- name: block_endpoints
-- Retry-After. $1 provider, $2 endpoints, $3 seconds, $4 reasons. The circuit is another door, and stays as it is.
update budget b
set blocked_until = greatest(b.blocked_until, clock_timestamp() + make_interval(secs => u.seconds)),
    block_reason = case when b.circuit then b.block_reason else u.reason end
from unnest($2::uuid[], $3::float8[], $4::text[]) u (endpoint, seconds, reason)
where b.provider = $1 and b.endpoint = u.endpoint;

-- name: open_circuits
-- $1 provider, $2 endpoints, $3 first intervals in seconds, $4 reasons, $5 longest interval. A circuit that nobody may
-- pass now stays as it is: this answer belongs to a request that left before, or to the probe, which was counted.
update budget b
set circuit = true, failures = b.failures + 1, block_reason = u.reason,
    blocked_until = greatest(b.blocked_until, clock_timestamp()
      + make_interval(secs => least($5::float8, u.seconds * 2.0 ^ least(b.failures, 16))))
from unnest($2::uuid[], $3::float8[], $4::text[]) u (endpoint, seconds, reason)
where b.provider = $1 and b.endpoint = u.endpoint and not (b.circuit and b.blocked_until > clock_timestamp());

-- name: close_circuits
-- $1 provider, $2 endpoints. Returns those that were open.
update budget
set circuit = false, failures = 0, blocked_until = null, block_reason = null
where provider = $1 and endpoint = any (array(select unnest($2::uuid[]))) and circuit
returning endpoint;

-- name: wake
-- What waits behind circuits looks again now. $1 providers, $2 endpoints (null: all), $3 reasons, $4 rows at most.
with behind as materialized (
  select delivery_id from work
  where state = 'waiting' and provider = any ($1::text[]) and ($2::uuid[] is null or endpoint = any ($2::uuid[]))
    and reason = any ($3::text[]) and next_at > statement_timestamp()
  limit $4 for update skip locked)
update work w set next_at = clock_timestamp()
where w.delivery_id = any (array(select delivery_id from behind)) and w.state || '' = 'waiting';
