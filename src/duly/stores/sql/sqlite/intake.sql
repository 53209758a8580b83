-- Intake: what the application asked for, and what of it is due.

-- name: namespace
select namespace from installation;

-- name: account_id
select id from account where name = :name;

-- name: account_add
insert into account (name, created_at) values (:name, db_now()) returning id;

-- name: reminder_hash
-- The submitted body's hash of the reminder that already has this key, by whatever id.
select body_hash from reminder where account_id = :account and caller_key = :key;

-- name: recipient_addresses
select addresses from recipient where account_id = :account and ref = :ref;

-- name: recipient_add
-- Written by the first reminder that names it, never changed by a later one.
insert into recipient (id, account_id, ref, name, zone, locale, addresses)
values (:id, :account, :ref, :name, :zone, :locale, :addresses)
on conflict do nothing;

-- name: contact_add
insert into contact (id, account_id, channel, address, endpoint)
values (:id, :account, :channel, :address, :endpoint)
on conflict do nothing;

-- name: reminder_add
insert into reminder (id, account_id, caller_key, body_hash, recipient_id, inline, addresses, channels, template, data, "to",
  notify_at, zone, deadline, deadline_at, late, lane, purpose, event_version, next_due_at, created_at)
values (:id, :account, :key, :body_hash, :recipient, :inline, :addresses, :channels, :template, :data, :to,
  :notify_at, :zone, :deadline, :deadline_at, :late, :lane, :purpose, :event_version, :next_due_at, db_now());

-- name: due
-- Oldest first, by the partial index. Inline addresses, else the recipient's as he is now.
select r.id, r.account_id, a.name, r.caller_key, r.recipient_id, r.revision, r.next_due_at, r.deadline_at, r.channels,
       case when r.inline then r.addresses else p.addresses end, r.inline, r.lane
from reminder r indexed by reminder_due
cross join account a on a.id = r.account_id
cross join recipient p on p.id = r.recipient_id
where r.next_due_at is not null and r.next_due_at <= db_now() and r.status = 'active'
order by r.next_due_at, r.id limit :limit;

-- name: due_remain
select exists (select 1 from reminder indexed by reminder_due
               where next_due_at is not null and next_due_at <= db_now() and status = 'active');

-- name: reminder_advance
-- Compare-and-set on the due time and the revision: of two ticks, one moves the schedule on.
update reminder set next_due_at = :next_due, status = case when :next_due is null then 'done' else status end
where id = :id and next_due_at = :expected and revision = :revision;

-- name: delivery_add
insert into delivery (id, account_id, reminder_id, recipient_id, contact_id, endpoint, occurrence, channel, provider, lane,
  due_at, deadline_at, created_at, status, reason, finished_at)
values (:id, :account, :reminder, :recipient, :contact, :endpoint, :occurrence, :channel, :provider, :lane,
  :due_at, :deadline_at, db_now(), :status, :reason, case when :status is not null then db_now() end)
on conflict do nothing;

-- name: work_add
-- Open work for a delivery that is really new.
insert into work (delivery_id, account_id, provider, lane, since, next_at, due_at, deadline_at, occurrence, channel,
  reminder_id, recipient_id, contact_id, endpoint)
values (:id, :account, :provider, :lane, db_now(), :due_at, :due_at, :deadline_at, :occurrence, :channel,
  :reminder, :recipient, :contact, :endpoint);
