-- Guard: signs of life, and the door that a restored backup shuts. Whether it is open says the view `gate`.
--
-- The row of the installation orders those who open a guard (FOR UPDATE) and those who write new open rows (FOR KEY
-- SHARE): whoever opens a guard sees every open row there is, and a row that is written later finds the guard. A
-- heartbeat waits for neither of the latter.

-- name: heartbeat
-- $1 the last sign of life that the caller has seen (null: none). Nothing where this is not the same database, or an
-- older state of it. A clock that was set back does not make it one.
update installation i
set heartbeat_at = greatest(i.heartbeat_at, now()), place = (select here from gate)
where not (select moved from gate) and ($1::timestamptz is null or i.heartbeat_at >= $1)
returning i.heartbeat_at;

-- name: settle_in
-- The guard is open: this is where the database is now.
update installation i set heartbeat_at = greatest(i.heartbeat_at, now()), place = (select here from gate);

-- name: keep_out_guard
-- Those who write new open rows.
select from installation for key share;

-- name: hold_installation
-- Whoever opens a guard.
select from installation for update;

-- name: last_sign
-- The last sign of life, the ledger's birth if there was none, and whether the database has moved.
select coalesce(i.heartbeat_at, i.created_at), g.moved from installation i cross join gate g;

-- name: guards
select number, since, opened_at, opened_by, why, closed_at, closed_by, closing_why from guard order by number desc;

-- name: guard_standing
select number, since, opened_at, opened_by, why, closed_at, closed_by, closing_why from guard where closed_at is null;

-- name: move_guard_back
-- $1 since, $2 actor, $3 why. Nothing, but its own words, where it stands further back already.
update guard
set since = least(since, $1::timestamptz),
    why = case when $1::timestamptz < since then why || '; moved back by ' || $2 || ': ' || $3 else why end
where closed_at is null
returning number, since, opened_at, opened_by, why, closed_at, closed_by, closing_why;

-- name: add_guard
-- $1 since, $2 actor, $3 why.
insert into guard (since, opened_by, why) values ($1::timestamptz, $2, $3)
returning number, since, opened_at, opened_by, why, closed_at, closed_by, closing_why;

-- name: close_guard
-- $1 actor, $2 why, $3 number (null: whichever is open).
update guard set closed_at = clock_timestamp(), closed_by = $1, closing_why = $2 where number = coalesce($3::int, number) and closed_at is null
returning number, since, opened_at, opened_by, why, closed_at, closed_by, closing_why;

-- name: restore
-- $1 actor, $2 whether also those that are in doubt of a restore already. Every open row may have been sent after the
-- backup was taken. Held and folded ones stay where they are. An uncertain one counts from now: the attempt that nobody
-- remembers may have been made since; what is in the air may arrive until its lease ends. A summary takes up nothing more.
with found as materialized (
  select delivery_id, state in ('held', 'folded') as stays, begun, lease_until,
         case when begun then 'sending' else state end as state
  from work where $2::bool or not restored
  order by delivery_id for update),
doubted as (
  update work w
  set doubt = true, restored = true, first_unknown_at = least(w.first_unknown_at, w.due_at), fence = w.fence + 1,
      state = case when f.stays then w.state else 'uncertain' end,
      reason = case when f.stays then w.reason else 'restored' end,
      granted = w.granted and f.stays,
      misses = 0, missed_at = null,
      since = case when f.stays then w.since else clock_timestamp() end,
      next_at = case when f.stays then w.next_at else clock_timestamp() end,
      begun = false, gathering = null, lease_until = null, worker = null
  from found f
  where w.delivery_id = f.delivery_id
  returning w.delivery_id, w.account_id, w.reminder_id, w.attempts, f.begun, f.lease_until, f.state as was, w.state),
lost as (
  insert into attempt_result (delivery_id, number, finished_at, outcome, class, stale)
  select d.delivery_id, d.attempts, greatest(clock_timestamp(), d.lease_until), 'unknown', 'worker_lost', false
  from doubted d where d.begun
  on conflict do nothing)
insert into event (account_id, reminder_id, delivery_id, kind, from_state, to_state, actor, reason)
select d.account_id, d.reminder_id, d.delivery_id, 'restored', d.was, d.state, $1, 'restored' from doubted d;
