-- Sending: claim takes leases, begin writes attempts. Ids come as in moves.sql, values of single rows by place.

-- name: claim_next_account
-- Loose index scan: one seek per account that has ready work.
select min(account_id) from work indexed by work_ready
where state = 'ready' and suspicion = 0 and provider = :provider and lane = :lane and account_id > :after;

-- name: claim_ready
-- One account's share, oldest first, then in order of arrival, which touches few pages.
select rowid, delivery_id from work indexed by work_ready
where state = 'ready' and suspicion = 0 and provider = :provider and lane = :lane and account_id = :account
order by next_at, rowid limit :limit;

-- name: claim_suspects
-- Rows that were in a worker's hands when it died, as often as :suspicion says: whatever their lane and account, oldest first.
select rowid, delivery_id from work indexed by work_suspects
where state = 'ready' and suspicion <> 0 and provider = :provider and suspicion = :suspicion
order by next_at, rowid limit :limit;

-- name: claim_bring
-- :ids, in that order, with all that admission, rendering and the request need.
with recursive place (at) as (select 1 union all select at + 16 from place where at + 16 < length(:ids))
select w.attempts, w.delivery_id, w.account_id, a.name, w.fence, w.spared, w.doubt, w.closed, w.granted,
       w.first_unknown_at, w.reminder_id, r.caller_key,
       {part_standing_of_reminder}, w.occurrence, w.lane, w.due_at, w.deadline_at,
       w.endpoint, w.channel, k.address, p.ref, coalesce(json_extract(r.own, '$.name'), p.name),
       coalesce(json_extract(r.own, '$.zone'), p.zone), coalesce(json_extract(r.own, '$.locale'), p.locale), r.template, r.data,
       a.revision, r.revision, p.revision, k.revision,
       a.paused, {part_objection}, b.blocked_until, b.block_reason, b.circuit,
       r.purpose, case when r.late <> 'drop' then r.deadline end, coalesce(r.quiet_hours, p.quiet_hours), r.template_version,
       case when r.late = 'summarize' then w.returned end
from place
cross join work w on w.delivery_id = substr(:ids, place.at, 16)
cross join account a on a.id = w.account_id
cross join reminder r on r.id = w.reminder_id
cross join recipient p on p.id = w.recipient_id
cross join contact k on k.id = w.contact_id
left join budget b on b.provider = w.provider and b.endpoint = w.endpoint;

-- name: claim_lease
update work set state = 'leased', begun = 0, fence = fence + 1, worker = ?, lease_until = ?, reason = null, since = db_now()
where rowid = ?;

-- name: frozen_latest
select f.number, f.destination, f.body, f.template, f.template_version,
       f.reminder_revision, f.recipient_revision, f.contact_revision, t.payload_hash
from frozen f left join attempt t on t.delivery_id = f.delivery_id and t.number = f.number
where f.delivery_id = :id order by f.number desc limit 1;

-- name: begin_seen
-- :ids, :worker. Rows that this worker holds and that have not begun, while lease and deadline last, with the
-- revisions that hold now.
with recursive place (at) as (select 1 union all select at + 16 from place where at + 16 < length(:ids))
select w.delivery_id, w.rowid, w.attempts + 1, w.fence, a.revision, r.revision, p.revision, k.revision
from place
cross join work w on w.delivery_id = substr(:ids, place.at, 16)
cross join account a on a.id = w.account_id
cross join reminder r on r.id = w.reminder_id
cross join recipient p on p.id = w.recipient_id
cross join contact k on k.id = w.contact_id
where w.state = 'leased' and not w.begun and w.worker = :worker and w.lease_until > db_now() and w.deadline_at > db_now();

-- name: begin_work
update work set begun = 1, attempts = ?, since = db_now() where rowid = ?;

-- name: begin_attempt
insert into attempt (delivery_id, number, fence, started_at, worker, provider, payload_hash) values (?, ?, ?, db_now(), ?, ?, ?);

-- name: begin_frozen
insert into frozen (delivery_id, number, destination, body, template, template_version,
  reminder_revision, recipient_revision, contact_revision)
values (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: begin_put_off
update work set state = 'waiting', reason = ?, next_at = ?, worker = null, lease_until = null, since = db_now() where rowid = ?;

-- name: renewable
-- :ids, :worker. Rows that this worker has begun, while their lease lasts.
with recursive place (at) as (select 1 union all select at + 16 from place where at + 16 < length(:ids))
select w.delivery_id, w.fence, w.rowid
from place cross join work w on w.delivery_id = substr(:ids, place.at, 16)
where w.state = 'leased' and w.begun and w.worker = :worker and w.lease_until > db_now();

-- name: renew
update work set lease_until = ? where rowid = ?;

-- name: budgets_seen
-- :provider, :ids of endpoints
with recursive place (at) as (select 1 union all select at + 16 from place where at + 16 < length(:ids))
select b.endpoint, b.tokens, b.updated_at, b.blocked_until, b.block_reason, b.circuit, b.failures
from place cross join budget b on b.provider = :provider and b.endpoint = substr(:ids, place.at, 16);

-- name: budget_spend
insert into budget (provider, endpoint, tokens, rate, updated_at, blocked_until, failures) values (?, ?, ?, ?, ?, ?, ?)
on conflict (provider, endpoint) do update set
  tokens = excluded.tokens, rate = excluded.rate, updated_at = excluded.updated_at,
  blocked_until = excluded.blocked_until, failures = excluded.failures;
