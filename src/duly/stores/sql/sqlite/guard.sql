-- Guard: signs of life, and what a restored backup may have forgotten. The rules are in guarding.py.

-- name: guard_standing
-- The open guard; there is one at most.
select number, since, opened_at, opened_by, why, closed_at, closed_by, closing_why
from guard indexed by guard_open where closed_at is null;

-- name: guard_closings
select closed_at from guard;

-- name: guard_add
insert into guard (since, opened_at, opened_by, why) values (:since, :now, :actor, :why);

-- name: guard_move_back
update guard set since = :since, why = why || '; moved back by ' || :actor || ': ' || :why where closed_at is null;

-- name: guard_close
update guard set closed_at = :now, closed_by = :actor, closing_why = :why where number = :number and closed_at is null;

-- name: heartbeat_seen
select heartbeat_at, created_at from installation;

-- name: heartbeat_write
-- Another process's clock may be ahead of this one's.
update installation set heartbeat_at = max(coalesce(heartbeat_at, 0), :now);

-- name: restore_events
-- :actor, :all. Of all open rows, or of those that are not in doubt of a restore yet. Held and folded ones stay where they are.
insert into event (at, account_id, reminder_id, delivery_id, kind, from_state, to_state, actor, reason)
select db_now(), account_id, reminder_id, delivery_id, 'restored', case when begun then 'sending' else state end,
       case when state in ('held', 'folded') then state else 'uncertain' end, :actor, 'restored'
from work where :all or not restored;

-- name: restore_results
-- What is in the air may arrive until its lease ends.
insert into attempt_result (delivery_id, number, finished_at, outcome, class, stale)
select delivery_id, attempts, max(db_now(), lease_until), 'unknown', 'worker_lost', 0 from work
where begun and (:all or not restored)
on conflict do nothing;

-- name: restore_kept
-- Whoever is deciding about it has to look again.
update work set doubt = 1, restored = 1, fence = fence + 1, misses = 0, missed_at = null,
  first_unknown_at = min(coalesce(first_unknown_at, due_at), due_at)
where state in ('held', 'folded') and (:all or not restored);

-- name: restore_work
-- An uncertain row counts from now as well: the attempt that nobody remembers may have been made since. A summary takes up
-- nothing more.
update work set state = 'uncertain', reason = 'restored', doubt = 1, restored = 1, granted = 0, misses = 0, missed_at = null,
  first_unknown_at = min(coalesce(first_unknown_at, due_at), due_at), fence = fence + 1, next_at = db_now(), since = db_now(),
  begun = 0, gathering = null, worker = null, lease_until = null
where state in ('ready', 'leased', 'waiting', 'uncertain') and (:all or not restored);
