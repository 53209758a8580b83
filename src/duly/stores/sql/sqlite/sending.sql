-- Sending: claim takes leases, begin writes attempts, abandon gives back.

-- name: claim_next_account
-- Loose index scan: one seek per account that has ready work.
select min(account_id) from work indexed by work_ready
where state = 'ready' and provider = :provider and lane = :lane and account_id > :after;

-- name: claim_ready
-- One account's share, oldest first, with all that admission, rendering and the request need.
select w.delivery_id, w.account_id, a.name, w.fence, w.attempts, w.spared, w.doubt, w.closed, w.granted, w.first_unknown_at,
       w.reminder_id, r.caller_key, r.status, w.occurrence, w.lane, w.due_at, w.deadline_at,
       w.endpoint, w.channel, k.address, p.ref, p.name, p.zone, p.locale, r.template, r.data,
       a.revision, r.revision, p.revision, k.revision,
       a.paused, k.suppressed, b.blocked_until, b.block_reason, b.circuit
from work w indexed by work_ready
cross join account a on a.id = w.account_id
cross join reminder r on r.id = w.reminder_id
cross join recipient p on p.id = w.recipient_id
cross join contact k on k.id = w.contact_id
left join budget b on b.provider = w.provider and b.endpoint = w.endpoint
where w.state = 'ready' and w.provider = :provider and w.lane = :lane and w.account_id = :account
order by w.next_at, w.delivery_id limit :limit;

-- name: claim_lease
update work set state = 'leased', begun = 0, fence = fence + 1, worker = :worker, lease_until = :lease_until,
  reason = null, since = db_now()
where delivery_id = :id;

-- name: frozen_latest
select f.number, f.destination, f.body, f.template, f.template_version,
       f.reminder_revision, f.recipient_revision, f.contact_revision, t.payload_hash
from frozen f left join attempt t on t.delivery_id = f.delivery_id and t.number = f.number
where f.delivery_id = :id order by f.number desc limit 1;

-- name: begin_allowed
-- The next attempt's number, where the fence holds, time is left, and the revisions are those that admission saw.
select w.attempts + 1
from work w
where w.delivery_id = :id and w.fence = :fence and w.state = 'leased' and not w.begun and w.worker = :worker
  and :good_until > db_now() and w.deadline_at > db_now() and w.lease_until > db_now()
  and :account_revision = (select revision from account where id = w.account_id)
  and :reminder_revision = (select revision from reminder where id = w.reminder_id)
  and :recipient_revision = (select revision from recipient where id = w.recipient_id)
  and :contact_revision = (select revision from contact where id = w.contact_id);

-- name: begin_work
update work set begun = 1, attempts = :number, since = db_now() where delivery_id = :id;

-- name: begin_attempt
insert into attempt (delivery_id, number, fence, started_at, worker, provider, payload_hash)
values (:id, :number, :fence, db_now(), :worker, :provider, :hash);

-- name: begin_frozen
insert into frozen (delivery_id, number, destination, body, template, template_version,
  reminder_revision, recipient_revision, contact_revision)
values (:id, :number, :destination, :body, :template, :template_version,
  :reminder_revision, :recipient_revision, :contact_revision);

-- name: begin_put_off
update work set state = 'waiting', reason = :reason, next_at = :next_at, worker = null, lease_until = null, since = db_now()
where delivery_id = :id;

-- name: budget_seen
select tokens, updated_at, blocked_until, block_reason, circuit, failures from budget where provider = :provider and endpoint = :endpoint;

-- name: budget_spend
insert into budget (provider, endpoint, tokens, rate, updated_at, blocked_until, failures)
values (:provider, :endpoint, :tokens, :rate, :now, :blocked_until, :failures)
on conflict (provider, endpoint) do update set
  tokens = excluded.tokens, rate = excluded.rate, updated_at = excluded.updated_at,
  blocked_until = excluded.blocked_until, failures = excluded.failures;

-- name: leased_to
select worker from work where delivery_id = :id and state = 'leased';
