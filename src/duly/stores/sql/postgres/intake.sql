-- Intake: reminders with their accounts, recipients and contacts. Every insert takes its rows in key order, so that
-- two imports of the same rows wait for each other and never in a circle.

-- name: add_accounts
-- $1 names. Asked only for names that are not there yet: a conflict would burn a number of the sequence each time.
insert into account (name)
select u.name from unnest($1::text[]) u (name)
where not exists (select from account a where a.name = u.name)
order by u.name
on conflict do nothing;

-- name: account_ids
select name, id from account where name = any ($1::text[]);

-- name: add_reminders
-- Returns the ids that are new. $1 ids, and one array per column.
insert into reminder (id, account_id, caller_key, body_hash, recipient_id, inline, addresses, channels, template, data,
                      "to", notify_at, zone, deadline, deadline_at, late, lane, purpose, event_version, next_due_at,
                      schedule, next_label, follows_recipient, zone_data, missed, grace, late_until, group_key,
                      template_version, quiet_hours)
select u.id, u.account_id, u.caller_key, u.body_hash, u.recipient_id, u.inline, u.addresses::jsonb,
       string_to_array(u.channels, ','), u.template, u.data::jsonb, u."to"::jsonb, u.notify_at, u.zone, u.deadline,
       u.deadline_at, u.late, u.lane, u.purpose, u.event_version, u.next_due_at, u.schedule, u.next_label,
       u.follows_recipient, u.zone_data, u.missed, u.grace, u.late_until, u.group_key, u.template_version,
       u.quiet_hours::jsonb
from unnest($1::uuid[], $2::int[], $3::text[], $4::bytea[], $5::uuid[], $6::bool[], $7::text[], $8::text[], $9::text[],
            $10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::timestamptz[], $16::text[],
            $17::text[], $18::text[], $19::int[], $20::timestamptz[], $21::text[], $22::text[], $23::bool[],
            $24::text[], $25::text[], $26::text[], $27::text[], $28::text[], $29::text[], $30::text[])
  u (id, account_id, caller_key, body_hash, recipient_id, inline, addresses, channels, template, data, "to", notify_at,
     zone, deadline, deadline_at, late, lane, purpose, event_version, next_due_at, schedule, next_label,
     follows_recipient, zone_data, missed, grace, late_until, group_key, template_version, quiet_hours)
on conflict do nothing
returning id;

-- name: keep_own
-- $1 ids of reminders, $2 names, $3 zones, $4 locales that came along (null: none did). What says something else than is
-- known of the recipient is the reminder's own; a zone of its own follows nobody.
update reminder r
set own = jsonb_strip_nulls(jsonb_build_object(
      'name', nullif(u.name, p.name), 'zone', nullif(u.zone, p.zone), 'locale', nullif(u.locale, p.locale))),
    follows_recipient = r.follows_recipient and nullif(u.zone, p.zone) is null
from unnest($1::uuid[], $2::text[], $3::text[], $4::text[]) u (id, name, zone, locale), recipient p
where r.id = any (array(select unnest($1::uuid[]))) and r.id = u.id and p.id = r.recipient_id
  and coalesce(nullif(u.name, p.name), nullif(u.zone, p.zone), nullif(u.locale, p.locale)) is not null;

-- name: submitted
-- $1 ids: the bodies as first submitted, and their versions.
select id, body_hash, event_version from reminder where id = any (array(select unnest($1::uuid[])));

-- name: recipient_addresses
-- $1 ids. Of those that may be sent to.
select id, addresses from recipient where id = any (array(select unnest($1::uuid[]))) and deleted_at is null;

-- name: add_recipients
-- $1 ids in key order, $2 accounts, $3 the caller's names for them, $4 names, $5 zones, $6 locales, $7 addresses, $8 quiet
-- hours.
insert into recipient (id, account_id, ref, name, zone, locale, addresses, quiet_hours)
select u.id, u.account_id, u.ref, u.name, u.zone, u.locale, u.addresses::jsonb, u.quiet_hours::jsonb
from unnest($1::uuid[], $2::int[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[])
  u (id, account_id, ref, name, zone, locale, addresses, quiet_hours)
on conflict do nothing;

-- name: add_contacts
-- $1 ids in key order, $2 accounts, $3 channels, $4 addresses, $5 endpoints.
insert into contact (id, account_id, channel, address, endpoint)
select * from unnest($1::uuid[], $2::int[], $3::text[], $4::text[], $5::uuid[])
on conflict do nothing;
