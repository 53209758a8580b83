-- Recipients in bulk, and what is done to recipients, accounts and templates.

-- name: upsert_new
-- Returns the ids that are new. $1 account, then one array per column, in key order.
insert into recipient (account_id, id, ref, name, zone, locale, addresses, quiet_hours)
select $1, u.id, u.ref, u.name, u.zone, u.locale, u.addresses::jsonb, u.quiet_hours::jsonb
from unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[])
  u (id, ref, name, zone, locale, addresses, quiet_hours)
on conflict do nothing
returning id;

-- name: recipients_kept
-- $1 ids, locked in key order.
select id, name, zone, locale, addresses, coalesce(quiet_hours, '[]'), deleted_at is not null
from recipient where id = any (array(select unnest($1::uuid[]))) order by id for update;

-- name: recipients_change
-- $1 ids, then one array per column. The revision rises, so that no admission of before can begin.
update recipient p set name = u.name, zone = u.zone, locale = u.locale, addresses = u.addresses::jsonb,
  quiet_hours = u.quiet_hours::jsonb, revision = p.revision + 1
from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[])
  u (id, name, zone, locale, addresses, quiet_hours)
where p.id = any (array(select unnest($1::uuid[]))) and p.id = u.id;

-- name: recipients_wake
-- $1 ids, whose zone or quiet hours are others now. What waits for the end of their quiet hours looks again now. Reads
-- the open work from end to end, once for a batch.
with quiet as materialized (
  select delivery_id from work
  where state = 'waiting' and reason = 'quiet_hours' and next_at > statement_timestamp()
    and recipient_id = any (array(select unnest($1::uuid[])))
  for update skip locked)
update work w set next_at = clock_timestamp()
where w.delivery_id = any (array(select delivery_id from quiet)) and w.state || '' = 'waiting';

-- name: operations_add
-- $1 account, $2 actor, $3 recipients, $4 kinds, $5 reasons.
insert into operation (account_id, actor, recipient_id, kind, reason)
select $1, $2, u.* from unnest($3::uuid[], $4::text[], $5::text[]) u;

-- name: lock_recipient
-- $1 id. Before anything else, so that it and a begin wait for each other.
select account_id, deleted_at is not null, disabled from recipient where id = $1::uuid for update;

-- name: delete_recipient
-- $1 id.
update recipient set deleted_at = clock_timestamp(), revision = revision + 1 where id = $1::uuid;

-- name: disable_channels
-- $1 id, $2 channels or null.
update recipient set disabled = $2::text[], revision = revision + 1 where id = $1::uuid;

-- name: recipient_tell
-- $1 recipient, $2 channel (null: any), $3 kind, $4 actor, $5 reason. An event at each open delivery. Reads the open
-- work from end to end.
insert into event (account_id, reminder_id, delivery_id, kind, from_state, to_state, actor, reason)
select w.account_id, w.reminder_id, w.delivery_id, $3, s.state, s.state, $4, $5
from work w
cross join lateral (select case when w.begun then 'sending' else w.state end as state) s
where w.recipient_id = $1::uuid and ($2::text is null or w.channel = $2);

-- name: operation_add
-- $1 account, $2 recipient, $3 template, $4 kind, $5 actor, $6 reason.
insert into operation (account_id, recipient_id, template, kind, actor, reason)
values ($1::int, $2::uuid, $3::text, $4, $5, $6);

-- name: pause_account
-- $1 name, $2 whether it is paused. The revision rises, so that no admission of before can begin: a begin holds the
-- account's row, and whoever commits first wins.
update account set paused = $2, revision = revision + 1 where name = $1 and paused <> $2 returning id;

-- name: wake_account
-- $1 id. What waits only for the account is looked at again.
update work set next_at = clock_timestamp() where state = 'waiting' and account_id = $1 and reason = 'account_paused';

-- name: pause_template
-- $1 template, $2 actor, $3 reason.
insert into paused_template (template, actor, reason) values ($1, $2, $3) on conflict do nothing returning template;

-- name: resume_template
-- $1 template.
delete from paused_template where template = $1 returning template;

-- name: recipients
-- $1 account, $2 the last id of the page before, $3 rows at most.
select p.ref, p.name, p.addresses ->> 'email', p.addresses ->> 'sms', p.addresses ->> 'webhook', p.zone, p.locale,
       p.quiet_hours
from recipient p
where p.account_id = (select id from account where name = $1) and p.ref > $2 and p.deleted_at is null
order by p.ref limit $3;

-- name: recipient_by_ref
-- $1 account, $2 the caller's own id.
select p.ref, p.name, p.addresses ->> 'email', p.addresses ->> 'sms', p.addresses ->> 'webhook', p.zone, p.locale,
       p.quiet_hours
from recipient p
where p.account_id = (select id from account where name = $1) and p.ref = $2 and p.deleted_at is null;

-- name: accounts
-- $1 rows at most.
select name, paused, created_at from account order by name limit $1;

-- name: paused_templates
-- $1 rows at most.
select template, since, actor, reason from paused_template order by template limit $1;
