-- Consent: the rule of it, what was said, and what stands. The rule in words, and in Python, is core/consent.py.

-- name: part_objection
-- Why nothing may go there, or null. Aliases: w has account_id and channel, r is the reminder, p its recipient, k the
-- contact. Looks at consent only where the contact says that there is something to see. Of two codes of one scope the
-- graver is the later word: suppressed, opted_out.
case when p.deleted_at is not null then 'recipient_deleted'
     when instr(p.disabled, '"' || w.channel || '"') then 'channel_disabled'
     when k.suppressed is not null then k.suppressed
     when k.silenced then coalesce(
       (select max(c.code) from consent c where c.account_id = k.account_id and c.contact_id = k.id and c.scope = r.purpose),
       case when r.purpose <> 'security' then (
         select max(c.code) from consent c where c.account_id = k.account_id and c.contact_id = k.id and c.scope = 'all') end)
end

-- name: part_standing_of_reminder
-- The reminder's status as admission takes it: called off for this delivery alone, or its template is paused.
case when r.status = 'cancelled' then r.status when w.called_off then 'called_off'
     when r.status <> 'paused' and r.template in (select t.template from paused_template t) then 'template_paused'
     else r.status end

-- name: contact_known
select a.name, k.channel, k.address, k.endpoint
from contact k cross join account a on a.id = k.account_id where k.id = :id;

-- name: consent_standing
select kind, scope, at, source, reason, actor, code from consent where account_id = :account and contact_id = :contact;

-- name: consent_heard
select exists (select 1 from consent_event where id = :id);

-- name: consent_put
insert into consent (account_id, contact_id, kind, scope, at, source, reason, actor, code, recorded_at)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, db_now())
on conflict (account_id, contact_id, scope, kind) do update set
  at = excluded.at, source = excluded.source, reason = excluded.reason, actor = excluded.actor, code = excluded.code,
  recorded_at = excluded.recorded_at;

-- name: consent_end
delete from consent where account_id = ? and contact_id = ? and kind = ? and scope = ?;

-- name: consent_note
insert into consent_event (id, account_id, contact_id, kind, scope, at, source, reason, actor, recorded_at)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, db_now())
on conflict (id) do nothing;

-- name: contact_stand
-- The revision rises, so that no admission of before can begin.
update contact set suppressed = ?, silenced = ?, revision = revision + 1 where id = ?;

-- name: consent_tell
-- :told, JSON: [contact in hex, purpose or null, the purposes that null does not mean, the objection from now on]. An
-- event at each open delivery whose answer changed. Reads the open work from end to end, once for a batch: an index
-- would cost every delivery more than this costs those who opt out.
with told (contact, purpose, others, reason) as materialized (
  select json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), json_extract(value, '$[3]')
  from json_each(:told))
insert into event (at, account_id, reminder_id, delivery_id, kind, from_state, to_state, actor, reason)
select db_now(), w.account_id, w.reminder_id, w.delivery_id, case when t.reason is null then 'allowed' else 'suppressed' end,
       case when w.begun then 'sending' else w.state end, case when w.begun then 'sending' else w.state end,
       :actor, coalesce(t.reason, 'consent_given')
from work w
cross join told t on t.contact = lower(hex(w.contact_id))
cross join reminder r on r.id = w.reminder_id
where r.purpose = t.purpose
  or t.purpose is null and r.purpose not in (select value from json_each(t.others));

-- name: show_consent
select c.kind, c.scope, c.code, c.at, c.source, c.reason, c.actor, c.recorded_at
from contact k cross join consent c on c.account_id = k.account_id and c.contact_id = k.id
where k.id = :contact order by c.scope, c.kind;

-- name: show_consent_history
select e.kind, e.scope, e.at, e.source, e.reason, e.actor, e.recorded_at
from consent_event e where e.contact_id = :contact order by e.number desc limit :limit;

-- name: consents
-- By the primary key, from where the page before ended.
select c.contact_id, c.kind, c.scope, k.channel, k.address, c.at, c.source, c.reason
from account a
cross join consent c on c.account_id = a.id
cross join contact k on k.id = c.contact_id
where a.name = :account and (c.contact_id, c.scope, c.kind) > (:contact, :scope, :kind)
order by c.contact_id, c.scope, c.kind limit :limit;
