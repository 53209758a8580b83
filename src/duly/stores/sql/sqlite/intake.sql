-- Intake: what the application asked for, and what of it is due.

-- name: namespace
select namespace from installation;

-- name: account_id
select id from account where name = :name;

-- name: account_add
insert into account (name, created_at) values (:name, db_now()) returning id;

-- name: reminder_submitted
-- The submitted body's hash and version of the reminder that already has this key, by whatever id.
select body_hash, event_version from reminder where account_id = :account and caller_key = :key;

-- name: recipient_addresses
-- Of one that may be sent to.
select addresses from recipient where account_id = :account and ref = :ref and deleted_at is null;

-- name: recipient_add
-- Written by the first reminder that names it, never changed by a later one.
insert into recipient (id, account_id, ref, name, zone, locale, addresses, quiet_hours)
values (:id, :account, :ref, :name, :zone, :locale, :addresses, :quiet_hours)
on conflict do nothing;

-- name: contact_add
insert into contact (id, account_id, channel, address, endpoint) values (?, ?, ?, ?, ?) on conflict do nothing;

-- name: reminder_add
insert into reminder (id, account_id, caller_key, body_hash, recipient_id, inline, addresses, channels, template, data, "to",
  notify_at, zone, deadline, deadline_at, late, lane, purpose, event_version, next_due_at, schedule, next_label,
  follows_recipient, zone_data, missed, grace, late_until, quiet_hours, group_key, template_version, created_at)
values (:id, :account, :key, :body_hash, :recipient, :inline, :addresses, :channels, :template, :data, :to,
  :notify_at, :zone, :deadline, :deadline_at, :late, :lane, :purpose, :event_version, :next_due_at, :schedule, :next_label,
  :follows_recipient, :zone_data, :missed, :grace, :late_until, :quiet_hours, :group, :template_version, db_now());

-- name: reminder_keep_own
-- What says something else than is known of the recipient is the reminder's own; a zone of its own follows nobody.
update reminder
set own = json_patch('{}', json_object(
      'name', nullif(:name, p.name), 'zone', nullif(:zone, p.zone), 'locale', nullif(:locale, p.locale))),
    follows_recipient = follows_recipient and nullif(:zone, p.zone) is null
from recipient p
where reminder.id = :id and p.id = reminder.recipient_id
  and coalesce(nullif(:name, p.name), nullif(:zone, p.zone), nullif(:locale, p.locale)) is not null;

-- name: due
-- Oldest first, then in order of arrival, which is the index's own order: of a million that are due at nine, none is sorted. Inline addresses, else the recipient's as he is now.
select r.id, r.account_id, a.name, r.caller_key, r.recipient_id, r.revision, r.next_due_at, r.deadline_at, r.channels,
       case when r.inline then r.addresses else p.addresses end, r.inline, r.lane, r.schedule, r.next_label,
       case when r.follows_recipient then coalesce(p.zone, r.zone) else r.zone end, coalesce(r.late_until, r.deadline),
       r.missed, r.grace, r.generation, case when p.deleted_at is not null then 'recipient_deleted' end
from reminder r indexed by reminder_due
cross join account a on a.id = r.account_id
cross join recipient p on p.id = r.recipient_id
where r.next_due_at is not null and r.next_due_at <= db_now() and r.status = 'active'
order by r.next_due_at, r.rowid limit :limit;

-- name: due_remain
select exists (select 1 from reminder indexed by reminder_due
               where next_due_at is not null and next_due_at <= db_now() + :ahead and status = 'active');

-- name: reminders_where_they_stand
-- :ids of reminders, as in moves.sql
with recursive place (at) as (select 1 union all select at + 16 from place where at + 16 < length(:ids))
select r.id, r.rowid, r.next_due_at, r.revision
from place cross join reminder r on r.id = substr(:ids, place.at, 16)
where r.status = 'active';

-- name: reminder_advance
update reminder set next_due_at = ?, status = ?, next_label = ?, deadline_at = coalesce(?, deadline_at) where rowid = ?;

-- name: deliveries_there
-- :ids of deliveries
with recursive place (at) as (select 1 union all select at + 16 from place where at + 16 < length(:ids))
select d.id from place cross join delivery d on d.id = substr(:ids, place.at, 16);

-- name: delivery_add
insert into delivery (id, account_id, reminder_id, recipient_id, contact_id, endpoint, occurrence, channel, provider, lane,
  due_at, deadline_at, status, reason, finished_at, created_at)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, db_now())
on conflict do nothing;

-- name: work_add
insert into work (delivery_id, account_id, reminder_id, recipient_id, contact_id, endpoint, occurrence, channel, provider, lane,
  due_at, deadline_at, next_at, since)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, db_now());

-- name: work_add_restored
-- Under a restore guard: an attempt that nobody remembers may have been made when it was due, or sooner: a reschedule may
-- be forgotten too. What was before the guard's beginning is on record.
insert into work (delivery_id, account_id, reminder_id, recipient_id, contact_id, endpoint, occurrence, channel, provider, lane,
  due_at, deadline_at, next_at, first_unknown_at, state, reason, doubt, restored, since)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13,
  min(?13, (select min(since) from guard where closed_at is null or closed_at >= ?13)),
  'uncertain', 'restored', 1, 1, db_now());
