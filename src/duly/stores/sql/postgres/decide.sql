-- Decisions: moves that no attempt explains.

-- name: decide
-- $1 ids, $2 fences, $3 origins, $4 states, $5 reasons, $6 next at, $7 closed, $8 granted, $9 certain, $10 covered,
-- $11 reopened, $12 evidence, $13 actor.
-- Returns the deliveries that moved.
--
-- `sure`: doubt ends here, because every attempt has a definite answer on record; a decision that thinks so where the
-- ledger does not agree is not applied. Or it ends because misses cover what is unknown, which is then marked so, and
-- written where no result is on record. A row in doubt does not end but as sent or unconfirmed: it is left as it is.
-- A plain return to ready leaves no event.
with r as (
  select u.*, u.state in ('ready', 'waiting', 'uncertain', 'held') as open,
         u.covered or u.certain and 0 = (
           select w.attempts + w.restored::int - (
             select count(*) from attempt_result x
             where x.delivery_id = w.delivery_id and x.number between 1 and w.attempts
               and (x.outcome <> 'unknown' or x.covered))
           from work w where w.delivery_id = u.delivery_id) as sure
  from unnest($1::uuid[], $2::int[], $3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::bool[], $8::bool[],
              $9::bool[], $10::bool[], $11::bool[], $12::text[])
    u (delivery_id, fence, origin, state, reason, next_at, closed, granted, certain, covered, reopened, evidence)),
moved as (
  update work w
  set state = r.state, reason = case when r.state <> 'ready' then r.reason end,
      next_at = coalesce(r.next_at, clock_timestamp()), since = clock_timestamp(), lease_until = null, worker = null,
      granted = w.granted and not r.sure or r.granted,
      closed = w.closed and not (r.sure or r.reopened) or r.closed,
      doubt = w.doubt and not r.sure,
      restored = w.restored and not r.sure, alarmed = false,
      misses = case when r.sure then 0 else w.misses end,
      missed_at = case when not r.sure then w.missed_at end,
      first_unknown_at = case when not r.sure then w.first_unknown_at end
  from r
  where w.delivery_id = any (array(select unnest($1::uuid[])))
    and w.delivery_id = r.delivery_id and w.fence = r.fence and w.state || '' = r.origin and not w.begun
    and r.open and (r.sure or not r.certain)
  returning w.delivery_id, w.account_id, w.reminder_id, w.attempts, r.origin, r.state, r.reason, r.covered, r.evidence),
gone as (
  delete from work w using r
  where w.delivery_id = any (array(select unnest($1::uuid[])))
    and w.delivery_id = r.delivery_id and w.fence = r.fence and w.state || '' = r.origin and not w.begun
    and not r.open and (r.sure or not r.certain) and (r.state in ('sent', 'unconfirmed') or r.sure or not w.doubt)
  returning w.delivery_id, w.account_id, w.reminder_id, w.attempts, r.origin, r.state, r.reason, r.covered, r.evidence),
head as (
  update delivery d set status = g.state, reason = g.reason, attempts = g.attempts, finished_at = clock_timestamp()
  from gone g where d.id = g.delivery_id),
marked as (
  insert into attempt_result (delivery_id, number, finished_at, outcome, class, stale, covered)
  select c.delivery_id, n.number, clock_timestamp(), 'unknown', 'worker_lost', false, true
  from (select delivery_id, attempts from moved where covered
        union all select delivery_id, attempts from gone where covered) c
  cross join lateral generate_series(1, c.attempts) n (number)
  on conflict (delivery_id, number) do update set covered = true where attempt_result.outcome = 'unknown'),
noted as (
  insert into event (account_id, reminder_id, delivery_id, kind, from_state, to_state, actor, reason, evidence)
  select e.account_id, e.reminder_id, e.delivery_id, 'decided', e.origin, e.state, $13, e.reason, e.evidence::jsonb
  from (select account_id, reminder_id, delivery_id, origin, state, reason, evidence from moved
        where not (origin = 'leased' and state = 'ready')
        union all
        select account_id, reminder_id, delivery_id, origin, state, reason, evidence from gone) e)
select delivery_id from moved union all select delivery_id from gone;
