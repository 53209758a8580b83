-- Recipients in bulk, and what is done to recipients, accounts and templates.

-- name: recipient_kept
select name, zone, locale, addresses, quiet_hours, deleted_at is not null from recipient where id = :id;

-- name: recipient_change
-- The revision rises, so that no admission of before can begin.
update recipient set name = ?, zone = ?, locale = ?, addresses = ?, quiet_hours = ?, revision = revision + 1 where id = ?;

-- name: recipients_wake
-- :recipients, JSON: ids in hex, whose zone or quiet hours are others now. What waits for the end of their quiet hours
-- looks again now. Reads the open work from end to end, once for a batch.
update work set next_at = db_now()
where state = 'waiting' and reason = 'quiet_hours' and next_at > db_now()
  and lower(hex(recipient_id)) in (select value from json_each(:recipients));

-- name: recipient_seen
select account_id, deleted_at is not null, disabled from recipient where id = :id;

-- name: recipient_delete
update recipient set deleted_at = db_now(), revision = revision + 1 where id = :id;

-- name: recipient_disable
update recipient set disabled = :disabled, revision = revision + 1 where id = :id;

-- name: recipient_tell
-- An event at each open delivery of his by :channel (null: by any). Reads the open work from end to end.
insert into event (at, account_id, reminder_id, delivery_id, kind, from_state, to_state, actor, reason)
select db_now(), account_id, reminder_id, delivery_id, :kind, stands, stands, :actor, :reason
from (select *, case when begun then 'sending' else state end as stands
      from work where recipient_id = :id and (:channel is null or channel = :channel));

-- name: operation_add
insert into operation (at, account_id, recipient_id, template, kind, actor, reason) values (db_now(), ?, ?, ?, ?, ?, ?);

-- name: account_pause
update account set paused = :paused, revision = revision + 1 where id = :id and paused <> :paused;

-- name: account_wake
-- What waits only for the account is looked at again.
update work set next_at = db_now() where state = 'waiting' and account_id = :id and reason = 'account_paused';

-- name: template_pause
insert into paused_template (template, since, actor, reason) values (:template, db_now(), :actor, :reason) on conflict do nothing;

-- name: template_resume
delete from paused_template where template = :template;

-- name: recipients
-- By the caller's own ids, from where the page before ended.
select p.ref, p.name, json_extract(p.addresses, '$.email'), json_extract(p.addresses, '$.sms'),
       json_extract(p.addresses, '$.webhook'), p.zone, p.locale, p.quiet_hours
from account a cross join recipient p on p.account_id = a.id
where a.name = :account and p.ref > :after and p.deleted_at is null
order by p.ref limit :limit;

-- name: recipient_by_ref
select p.ref, p.name, json_extract(p.addresses, '$.email'), json_extract(p.addresses, '$.sms'),
       json_extract(p.addresses, '$.webhook'), p.zone, p.locale, p.quiet_hours
from account a cross join recipient p on p.account_id = a.id
where a.name = :account and p.ref = :ref and p.deleted_at is null;

-- name: accounts
select name, paused, created_at from account order by name limit :limit;

-- name: paused_templates
select template, since, actor, reason from paused_template order by template limit :limit;
