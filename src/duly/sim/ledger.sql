-- What the simulation reads after every commit, on a connection of its own.

-- name: version
-- Differs from the last answer if anybody else has committed since (https://www.sqlite.org/pragma.html#pragma_data_version).
pragma data_version;

-- name: standings
select d.id, coalesce(d.status, case when w.begun then 'sending' else w.state end), coalesce(d.reason, w.reason), d.provider,
       d.reminder_id, d.contact_id, d.due_at, d.deadline_at, coalesce(w.attempts, d.attempts), coalesce(w.fence, 0),
       coalesce(w.doubt, 0), coalesce(w.closed, 0), coalesce(w.granted, 0), coalesce(w.restored, 0),
       coalesce(w.suspicion, 0), w.next_at, w.lease_until, w.worker, d.request_id
from delivery d left join work w on w.delivery_id = d.id;

-- name: attempts_after
select rowid, delivery_id, number, started_at, worker, payload_hash from attempt where rowid > :seen order by rowid;

-- name: results
select delivery_id, number, outcome, request_id, covered from attempt_result;

-- name: events_after
select id, delivery_id, kind, from_state, to_state, actor, reason, evidence, reminder_id from event where id > :seen order by id;

-- name: forbidden
-- Why nothing may be begun for these deliveries: the reminder or the delivery is cancelled.
select d.id, case when r.status = 'cancelled' then 'cancelled' else 'called off' end
from delivery d
join work w on w.delivery_id = d.id
join reminder r on r.id = d.reminder_id
where r.status = 'cancelled' or w.called_off;

-- name: next_due
select min(next_due_at) from reminder where next_due_at is not null and status = 'active';

-- name: open_guard
select number from guard where closed_at is null;
