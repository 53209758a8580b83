-- Templates: the sources of versions that reminders are pinned to, and how reminders come to another version.

-- name: keep_templates
-- $1 names, $2 versions, in key order, then one array per column. A version is a hash of its source, so the same one is
-- the same. Looked at first, so that an import that brings nothing new writes nothing.
insert into template (name, version, subject, text, html, sms_segments_max, sms_to_gsm)
select u.* from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::int[], $7::bool[])
  u (name, version, subject, text, html, sms_segments_max, sms_to_gsm)
where not exists (select from template t where t.name = u.name and t.version = u.version)
on conflict do nothing;

-- name: template_sources
-- $1 names, $2 versions.
select t.name, t.version, t.subject, t.text, t.html, t.sms_segments_max, t.sms_to_gsm
from unnest($1::text[], $2::text[]) u (name, version)
join template t on t.name = u.name and t.version = u.version;

-- name: page_to_upgrade
-- $1 the last id of the page before, $2 template, $3 version, $4 account (null: any), $5 rows at most. The page's last id
-- (null: it was the last page), and the reminders in it that are pinned to another version. A page is of the ledger, not
-- of what is looked for: so its cost is bounded without an index of its own.
with page as materialized (select * from reminder where id > $1::uuid order by id limit $5)
select (select id from page order by id offset $5 - 1),
       array(select p.id from page p
             where p.template = $2 and p.template_version is distinct from $3 and p.status <> 'cancelled'
               and ($4::text is null or p.account_id = (select a.id from account a where a.name = $4))
               and (p.next_due_at is not null or exists (
                 select from delivery d
                 where d.account_id = p.account_id and d.reminder_id = p.id and d.status in ('dead', 'rejected')))
             order by p.id);

-- name: lock_to_upgrade
-- $1 ids in key order, $2 template, $3 version. A tick and a begin wait for it, and it for them.
select id from reminder
where id = any (array(select unnest($1::uuid[]))) and template = $2 and template_version is distinct from $3
order by id for update;

-- name: upgrade_reminders
-- $1 ids of locked reminders, $2 version, $3 actor, $4 reason. A later statement than the lock: it sees what a tick has
-- made of them. Returns those that were moved.
with before as materialized (
  select id, template_version from reminder where id = any (array(select unnest($1::uuid[])))),
moved as (
  update reminder r set template_version = $2, revision = r.revision + 1
  from before b
  where r.id = any (array(select unnest($1::uuid[]))) and r.id = b.id
    and not exists (select from delivery d join work w on w.delivery_id = d.id
                    where d.account_id = r.account_id and d.reminder_id = r.id)
  returning r.id, r.account_id, r.status, r.template, b.template_version as was)
insert into event (account_id, reminder_id, kind, from_state, to_state, actor, reason, evidence)
select m.account_id, m.id, 'template_upgraded', m.status, m.status, $3, $4,
       jsonb_build_object('template', m.template, 'from', m.was, 'to', $2::text)
from moved m
returning reminder_id;

-- name: pinned_templates
-- Reminders with occurrences to come. Reads all of them.
select template, template_version, count(*) from reminder where next_due_at is not null group by 1, 2 order by 1, 2;
