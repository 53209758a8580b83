-- Moves: open rows as they stand, and the only statements that change where a delivery stands. The rules are in
-- moves.py. A batch of ids comes as one blob, 16 bytes each; statements that run once per row take their values by
-- place, in the order in which the columns stand here.

-- name: part_row
-- An open row as it stands, in the order of moves.Row.
w.delivery_id, w.account_id, w.reminder_id, case when w.begun then 'sending' else w.state end, w.fence, w.attempts,
       w.spared, w.doubt, w.closed, w.granted, w.first_unknown_at, w.reason, w.next_at, w.worker,
       w.misses, w.missed_at, w.restored, w.alarmed, w.suspicion, w.deaths

-- name: open_rows
-- :ids
with recursive place (at) as (select 1 union all select at + 16 from place where at + 16 < length(:ids))
select {part_row}
from place cross join work w on w.delivery_id = substr(:ids, place.at, 16);

-- name: open_of_reminder
select {part_row}
from delivery d cross join work w on w.delivery_id = d.id
where d.account_id = :account and d.reminder_id = :reminder;

-- name: open_with_ended_lease
select {part_row}
from work w indexed by work_leased
where state = 'leased' and lease_until <= db_now() order by lease_until limit :limit;

-- name: open_past_deadline
select {part_row}
from work w indexed by work_expiry
where state in ('ready', 'waiting') and deadline_at <= db_now() order by deadline_at limit :limit;

-- name: work_move
-- The lease, if there was one, is over; so is a hold, and its alarm.
update work set state = ?, fence = ?, spared = ?, doubt = ?, closed = ?, granted = ?, first_unknown_at = ?, reason = ?, next_at = ?,
  misses = ?, missed_at = ?, restored = ?, suspicion = ?, deaths = ?,
  begun = 0, worker = null, lease_until = null, alarmed = 0, since = db_now()
where delivery_id = ?;

-- name: work_look
-- It stays where it is.
update work set next_at = ?, misses = ?, missed_at = ?, alarmed = ? where delivery_id = ?;

-- name: work_shut
-- In doubt, and not to be sent again: the looking rungs remain. Whoever is deciding about it has to look again.
update work set closed = 1, fence = fence + 1 where delivery_id = :id and not closed;

-- name: work_call_off
-- This delivery alone was cancelled. What is in the air or in doubt stays, and is not sent any more.
update work set called_off = 1 where delivery_id = :id and not called_off;

-- name: delivery_call_off
update delivery set called_off = 1 where id = :id;

-- name: work_close
delete from work where delivery_id = ?;

-- name: delivery_finish
update delivery set status = ?, reason = ?, attempts = ?, request_id = coalesce(?, request_id), finished_at = coalesce(?, db_now())
where id = ?;

-- name: work_reopen
-- ?1 delivery, ?2 state, ?3 whether it is in doubt of a restore. Its attempts are spared. Its fence was forgotten with its
-- work: seconds (since 2020) are more than any fence that somebody may remember. What was folded once is not folded again.
insert into work (delivery_id, account_id, provider, lane, state, fence, attempts, spared, doubt, restored, first_unknown_at,
  called_off, returned, reason, since, next_at, due_at, deadline_at, occurrence, channel, reminder_id, recipient_id, contact_id, endpoint)
select d.id, d.account_id, d.provider, d.lane, ?2,
       max(db_now() / 1000000 - 1577836800, 1 + coalesce((select max(a.fence) from attempt a where a.delivery_id = d.id), 0)),
       d.attempts, d.attempts,
       ?3, ?3, case when ?3 then d.due_at end, d.called_off, case when d.summary_id is null then 0 else 1000 end, case when ?3 then 'restored' end, db_now(), db_now(),
       d.due_at, d.deadline_at, d.occurrence, d.channel, d.reminder_id, d.recipient_id, d.contact_id, d.endpoint
from delivery d where d.id = ?1;

-- name: delivery_reopen
update delivery set status = null, reason = null, finished_at = null where id = ?;

-- name: redrivable
-- :ids. Dead letters. A summary is none: what was in it has gone its own ways since.
with recursive place (at) as (select 1 union all select at + 16 from place where at + 16 < length(:ids))
select d.id, d.account_id, d.reminder_id, d.status, d.attempts, d.request_id, d.due_at
from place cross join delivery d on d.id = substr(:ids, place.at, 16)
where d.status in ('dead', 'rejected') and not d.summarizes;

-- name: deliveries_ended
-- :ids
with recursive place (at) as (select 1 union all select at + 16 from place where at + 16 < length(:ids))
select d.id, d.account_id, d.reminder_id, d.status, d.attempts, d.request_id, d.due_at
from place cross join delivery d on d.id = substr(:ids, place.at, 16)
where d.status is not null;

-- name: event_add
insert into event (at, account_id, reminder_id, delivery_id, kind, from_state, to_state, actor, reason, evidence)
values (db_now(), ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: delivery_name
update delivery set request_id = :request_id where id = :id and request_id is null;

-- name: double_acceptance_seen
select exists (
  select 1 from event where reminder_id = :reminder and delivery_id = :id and kind = 'double_acceptance'
    and json_extract(evidence, '$.request_ids[1]') = :request_id);

-- name: result_write
-- Append-only, but for one door: unknown may become a definite answer of the same attempt.
insert into attempt_result (delivery_id, number, finished_at, outcome, class, http_status, request_id, retry_after,
  excerpt, detail, stale)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict (delivery_id, number) do update set
  finished_at = excluded.finished_at, outcome = excluded.outcome, class = excluded.class, http_status = excluded.http_status,
  request_id = excluded.request_id, retry_after = excluded.retry_after, excerpt = excluded.excerpt, detail = excluded.detail,
  stale = excluded.stale, covered = 0
where attempt_result.outcome = 'unknown' and excluded.outcome <> 'unknown';

-- name: results_cover
-- ?1 delivery, ?2 its attempts. Those without an answer have one now: unknown.
with recursive attempts (number) as (select 1 union all select number + 1 from attempts where number < ?2)
insert into attempt_result (delivery_id, number, finished_at, outcome, class, stale, covered)
select ?1, number, db_now(), 'unknown', 'worker_lost', 0, 1 from attempts where number <= ?2
on conflict (delivery_id, number) do update set covered = 1 where attempt_result.outcome = 'unknown';

-- name: result_seen
select outcome, stale from attempt_result where delivery_id = :id and number = :number;

-- name: attempt_seen
select started_at, worker from attempt where delivery_id = :id and number = :number;

-- name: unknown_attempts
-- Attempts that may have been accepted: those without a definite answer and not covered, also where their rows are no
-- longer kept. After a restore, one that nobody recorded counts.
select w.attempts + w.restored - (
  select count(*) from attempt_result r
  where r.delivery_id = w.delivery_id and r.number between 1 and w.attempts and (r.outcome <> 'unknown' or r.covered))
from work w where w.delivery_id = :id;
