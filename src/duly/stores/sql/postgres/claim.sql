-- Claim: lease ready rows, fairly across accounts, and bring all that admission, rendering and the request need.

-- name: claim
-- $1 provider, $2 lane, $3 rows at most, $4 the account after which to start, $5 worker, $6 lease in seconds, $7 the
-- endpoint of a provider that has only one, $8 suspicion.
--
-- `allowed`: nothing while the gate is shut; no more rows than the budget of such a provider shows, because begin would
-- only put them off; behind a closed door all of them, because there begin says until when. `turn` walks the accounts that have ready rows, one index probe each (a loose index scan), so the cost does not
-- grow with the backlog. Each gets an equal share. `pick` is MATERIALIZED: a subquery with SKIP LOCKED that the
-- planner runs twice locks twice as many rows. The update finds its rows by an array and states its predicate so
-- that no statistic fits it (`state || ''`): right after ANALYZE of a table in which every row is ready, the planner
-- would otherwise read the whole table for each row.
-- Suspects of a suspicion are few, and come whatever their lane and account, oldest first: for them there are no turns.
with recursive
allowed as (
  select case when not (select open from gate) then 0 else coalesce((
    select least($3, floor(least(greatest(1, b.rate),
                                 b.tokens + b.rate * extract(epoch from now() - b.updated_at)))::int)
    from budget b
    where b.provider = $1 and b.endpoint = $7::uuid and b.rate is not null
      and (b.blocked_until is null or b.blocked_until <= now()) and not b.circuit), $3) end as rows),
turn (account_id, place) as (
  (select w.account_id, 1 from work w
   where w.state = 'ready' and w.suspicion = 0 and w.provider = $1 and w.lane = $2 and w.account_id > $4 and $8 = 0
   order by w.account_id limit 1)
  union all
  (select n.account_id, turn.place + 1
   from turn cross join lateral (
     select w.account_id from work w
     where w.state = 'ready' and w.suspicion = 0 and w.provider = $1 and w.lane = $2 and w.account_id > turn.account_id
     order by w.account_id limit 1) n
   where turn.place < (select rows from allowed))),
share as (
  select count(*)::int as accounts, ceil((select rows from allowed)::numeric / greatest(1, count(*)))::int as rows
  from turn),
pick as materialized (
  select s.delivery_id
  from turn cross join lateral (
    select w.delivery_id from work w
    where w.state = 'ready' and w.suspicion = 0 and w.provider = $1 and w.lane = $2 and w.account_id = turn.account_id
    order by w.next_at, w.delivery_id limit (select rows from share) for update skip locked) s
  union all
  select s.delivery_id
  from (select w.delivery_id from work w
        where w.state = 'ready' and w.suspicion > 0 and w.provider = $1 and w.suspicion = $8 and $8 > 0
        order by w.next_at limit (select rows from allowed) for update skip locked) s
  limit (select rows from allowed)),
leased as (
  update work w
  set state = 'leased', begun = false, fence = w.fence + 1, worker = $5, reason = null, since = now(),
      lease_until = now() + make_interval(secs => $6)
  where w.delivery_id = any (array(select delivery_id from pick)) and w.state || '' = 'ready'
  returning w.delivery_id, w.account_id, w.fence, w.attempts, w.spared, w.doubt, w.closed, w.granted,
            w.first_unknown_at, w.occurrence, w.due_at, w.deadline_at, w.endpoint, w.channel,
            w.called_off, w.returned,
            case when $8 > 0 then w.lane end as lane, w.reminder_id, w.recipient_id, w.contact_id)
select w.delivery_id, w.account_id, a.name, w.fence, w.attempts, w.spared, w.doubt, w.closed, w.granted,
       w.first_unknown_at, w.reminder_id, r.caller_key,
       {part_standing_of_reminder}, w.occurrence, w.lane,
       w.due_at, w.deadline_at, w.endpoint, w.channel, k.address, p.ref, coalesce(r.own ->> 'name', p.name),
       coalesce(r.own ->> 'zone', p.zone), coalesce(r.own ->> 'locale', p.locale), r.template, r.data,
       a.revision, r.revision, p.revision, k.revision, a.paused, {part_objection},
       b.blocked_until, b.block_reason, b.circuit,
       f.number, f.destination, f.body, f.template, f.template_version,
       f.reminder_revision, f.recipient_revision, f.contact_revision,
       r.purpose, case when r.late <> 'drop' then r.deadline end, coalesce(r.quiet_hours, p.quiet_hours), r.template_version,
       case when r.late = 'summarize' then w.returned end,
       (select accounts from share), (select rows from allowed)
from leased w
join account a on a.id = w.account_id
join reminder r on r.id = w.reminder_id
join recipient p on p.id = w.recipient_id
join contact k on k.id = w.contact_id
left join budget b on b.provider = $1 and b.endpoint = w.endpoint and (b.circuit or b.blocked_until > now())
left join lateral (
  select z.number, z.destination, z.body, z.template, z.template_version,
         z.reminder_revision, z.recipient_revision, z.contact_revision
  from frozen z
  where w.attempts > 0 and z.delivery_id = w.delivery_id
  order by z.number desc limit 1) f on true;
