-- The ideal loop's statements. Same rows, fences and checks as src/duly/stores/sql/sqlite, without what a first attempt
-- of an accepted webhook does not need. Times are microseconds since 1970.

-- name: claim
select w.delivery_id, w.fence + 1, a.revision, r.revision, p.revision, k.revision,
       w.reminder_id, w.recipient_id, w.contact_id,
       a.name, r.caller_key, w.occurrence, w.due_at, k.address, p.ref, p.name, r.data
from work w indexed by work_ready
cross join account a on a.id = w.account_id
cross join reminder r on r.id = w.reminder_id
cross join recipient p on p.id = w.recipient_id
cross join contact k on k.id = w.contact_id
where w.state = 'ready' and w.suspicion = 0 and w.provider = :provider and w.lane = 'normal'
order by w.account_id, w.next_at, w.delivery_id limit :rows_max;

-- name: lease
update work set state = 'leased', begun = 0, fence = :fence, worker = :worker, lease_until = :lease_until, reason = null,
  since = :now
where delivery_id = :id;

-- name: begin
update work set begun = 1, attempts = attempts + 1, since = :now
where delivery_id = :id and fence = :fence and state = 'leased' and not begun and worker = :worker
  and lease_until > :trust_until and deadline_at > :now
  and :account_revision = (select revision from account where id = work.account_id)
  and :reminder_revision = (select revision from reminder where id = work.reminder_id)
  and :recipient_revision = (select revision from recipient where id = work.recipient_id)
  and :contact_revision = (select revision from contact where id = work.contact_id)
returning attempts;

-- name: attempt
insert into attempt (delivery_id, number, fence, started_at, worker, provider, payload_hash)
values (:id, :number, :fence, :now, :worker, :provider, :hash);

-- name: frozen
insert into frozen (delivery_id, number, destination, body, template, template_version,
  reminder_revision, recipient_revision, contact_revision)
values (:id, :number, :destination, :body, :template, :template_version,
  :reminder_revision, :recipient_revision, :contact_revision);

-- name: close
delete from work where delivery_id = :id and fence = :fence and state = 'leased' and begun;

-- name: finish
update delivery set status = 'sent', reason = 'accepted', attempts = :number, finished_at = :finished_at
where id = :id and status is null;

-- name: result
insert into attempt_result (delivery_id, number, finished_at, outcome, http_status, stale)
values (:id, :number, :finished_at, 'accepted', 200, 0);
