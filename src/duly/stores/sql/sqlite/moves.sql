-- Moves: an open row as it stands, and the only statements that change where it stands. The rules are in moves.py.

-- name: open_row
select delivery_id, account_id, reminder_id, state, begun, fence, attempts, spared, doubt, closed, granted,
       first_unknown_at, reason, next_at
from work where delivery_id = :id;

-- name: open_of_reminder
select w.delivery_id, w.account_id, w.reminder_id, w.state, w.begun, w.fence, w.attempts, w.spared, w.doubt, w.closed, w.granted,
       w.first_unknown_at, w.reason, w.next_at
from delivery d indexed by sqlite_autoindex_delivery_2
cross join work w on w.delivery_id = d.id
where d.account_id = :account and d.reminder_id = :reminder;

-- name: open_with_ended_lease
select delivery_id, account_id, reminder_id, state, begun, fence, attempts, spared, doubt, closed, granted,
       first_unknown_at, reason, next_at
from work indexed by work_leased
where state = 'leased' and lease_until <= db_now() limit :limit;

-- name: open_past_deadline
select delivery_id, account_id, reminder_id, state, begun, fence, attempts, spared, doubt, closed, granted,
       first_unknown_at, reason, next_at
from work indexed by work_expiry
where state in ('ready', 'waiting') and deadline_at <= db_now() order by deadline_at limit :limit;

-- name: work_move
update work set state = :state, begun = 0, fence = :fence, spared = :spared, doubt = :doubt, closed = :closed, granted = :granted,
  first_unknown_at = :first_unknown_at, reason = :reason, next_at = :next_at, worker = null, lease_until = null, since = db_now()
where delivery_id = :id;

-- name: work_shut
-- In doubt, and not to be sent again: the looking rungs remain. Whoever is deciding about it has to look again.
update work set closed = 1, fence = fence + 1 where delivery_id = :id and not closed;

-- name: work_close
delete from work where delivery_id = :id;

-- name: delivery_finish
update delivery set status = :status, reason = :reason, attempts = :attempts, request_id = coalesce(:request_id, request_id),
  finished_at = coalesce(:finished_at, db_now())
where id = :id;

-- name: delivery_ended
select account_id, reminder_id, status, attempts from delivery where id = :id and status is not null;

-- name: event_add
insert into event (at, account_id, reminder_id, delivery_id, kind, from_state, to_state, actor, reason)
values (db_now(), :account, :reminder, :id, :kind, :origin, :target, :actor, :reason);

-- name: result_write
-- Append-only, but for one door: unknown may become a definite answer of the same attempt.
insert into attempt_result (delivery_id, number, finished_at, outcome, class, http_status, request_id, retry_after,
  excerpt, detail, stale)
values (:id, :number, :finished_at, :outcome, :class, :http_status, :request_id, :retry_after, :excerpt, :detail, :stale)
on conflict (delivery_id, number) do update set
  finished_at = excluded.finished_at, outcome = excluded.outcome, class = excluded.class, http_status = excluded.http_status,
  request_id = excluded.request_id, retry_after = excluded.retry_after, excerpt = excluded.excerpt, detail = excluded.detail,
  stale = excluded.stale
where attempt_result.outcome = 'unknown' and excluded.outcome <> 'unknown';

-- name: result_seen
select outcome, stale from attempt_result where delivery_id = :id and number = :number;

-- name: attempt_seen
select started_at, worker from attempt where delivery_id = :id and number = :number;

-- name: unknown_attempts
-- Attempts that may have been accepted: those without a definite answer, also where their rows are no longer kept.
-- In doubt before any attempt (after a restore), one that nobody recorded counts.
select max(w.attempts - (select count(*) from attempt_result r where r.delivery_id = w.delivery_id and r.outcome <> 'unknown'),
           w.doubt and w.attempts = 0)
from work w where w.delivery_id = :id;
