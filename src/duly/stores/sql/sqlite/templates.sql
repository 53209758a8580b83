-- Templates: the sources of versions that reminders are pinned to, and how reminders come to another version.

-- name: template_keep
-- A version is a hash of its source, so the same one is the same.
insert into template (name, version, subject, text, html, sms_segments_max, sms_to_gsm, created_at)
values (?, ?, ?, ?, ?, ?, ?, db_now()) on conflict do nothing;

-- name: template_kept
select name, version, subject, text, html, sms_segments_max, sms_to_gsm from template
where name = :name and version = :version;

-- name: page_end
-- The last id of a page that is full; none for the last page.
select id from reminder where id > :after order by id limit 1 offset :limit - 1;

-- name: reminders_to_upgrade
-- In a page of the ledger, those that are pinned to another version, and whether a delivery of theirs is open.
select r.id, r.account_id, r.status, r.template_version,
       exists (select 1 from delivery d cross join work w on w.delivery_id = d.id
               where d.account_id = r.account_id and d.reminder_id = r.id)
from (select * from reminder where id > :after order by id limit :limit) r
where r.template = :template and r.template_version is not :version and r.status <> 'cancelled'
  and (:account is null or r.account_id = (select a.id from account a where a.name = :account))
  and (r.next_due_at is not null or exists (
    select 1 from delivery d
    where d.account_id = r.account_id and d.reminder_id = r.id and d.status in ('dead', 'rejected')));

-- name: reminder_upgrade
update reminder set template_version = ?, revision = revision + 1 where id = ?;

-- name: pinned_templates
-- Reminders with occurrences to come. Reads all of them.
select template, template_version, count(*) from reminder where next_due_at is not null group by 1, 2 order by 1, 2;
