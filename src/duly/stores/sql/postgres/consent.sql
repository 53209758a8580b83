-- Consent: the rule of it, what was said, and what stands. The rule in words, and in Python, is core/consent.py.

-- name: part_objection
-- Why nothing may go there, or null. Aliases: w has account_id and channel, r is the reminder, p its recipient, k the
-- contact. Looks at consent only where the contact says that there is something to see. Of two codes of one scope the
-- graver is the later word: suppressed, opted_out.
case when p.deleted_at is not null then 'recipient_deleted'
     when w.channel = any (p.disabled) then 'channel_disabled'
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

-- name: lock_contacts
-- $1 ids. In key order, and before anything is read: a begin that has locked one of them first has seen it as it was.
select id from contact where id = any (array(select unnest($1::uuid[]))) order by id for update;

-- name: contact_known
-- $1 id.
select a.name, k.channel, k.address, k.endpoint
from contact k join account a on a.id = k.account_id where k.id = $1::uuid;

-- name: consent_standing
-- $1 account, $2 contacts.
select contact_id, kind, scope, at, source, reason, actor, code
from consent where account_id = $1 and contact_id = any (array(select unnest($2::uuid[])));

-- name: consent_heard
-- $1 ids: those that were heard before.
select id from consent_event where id = any (array(select unnest($1::uuid[])));

-- name: consent_put
-- $1 account, then one array per column.
insert into consent (account_id, contact_id, kind, scope, at, source, reason, actor, code)
select $1, u.* from unnest($2::uuid[], $3::text[], $4::text[], $5::timestamptz[], $6::text[], $7::text[], $8::text[], $9::text[]) u
on conflict (account_id, contact_id, scope, kind) do update set
  at = excluded.at, source = excluded.source, reason = excluded.reason, actor = excluded.actor, code = excluded.code,
  recorded_at = excluded.recorded_at;

-- name: consent_end
-- $1 account, $2 contacts, $3 kinds, $4 scopes.
delete from consent c
using unnest($2::uuid[], $3::text[], $4::text[]) u (contact_id, kind, scope)
where c.account_id = $1 and c.contact_id = u.contact_id and c.kind = u.kind and c.scope = u.scope;

-- name: consent_note
-- $1 account, $2 actor, then one array per column.
insert into consent_event (account_id, actor, id, contact_id, kind, scope, at, source, reason)
select $1, $2, u.* from unnest($3::uuid[], $4::uuid[], $5::text[], $6::text[], $7::timestamptz[], $8::text[], $9::text[]) u
on conflict (id) do nothing;

-- name: contacts_stand
-- $1 ids, $2 suppressed, $3 silenced. The revision rises, so that no admission of before can begin.
update contact k set suppressed = u.suppressed, silenced = u.silenced, revision = k.revision + 1
from unnest($1::uuid[], $2::text[], $3::bool[]) u (id, suppressed, silenced)
where k.id = any (array(select unnest($1::uuid[]))) and k.id = u.id;

-- name: consent_tell
-- $1 contacts, $2 purposes or null, $3 the purposes that null does not mean (JSON), $4 the objections from now on,
-- $5 actor. An event at each open delivery whose answer changed. Reads the open work from end to end, once for a
-- batch: an index would cost every delivery more than this costs those who opt out.
insert into event (account_id, reminder_id, delivery_id, kind, from_state, to_state, actor, reason)
select w.account_id, w.reminder_id, w.delivery_id, case when t.reason is null then 'allowed' else 'suppressed' end,
       s.state, s.state, $5, coalesce(t.reason, 'consent_given')
from unnest($1::uuid[], $2::text[], $3::text[], $4::text[]) t (contact_id, purpose, others, reason)
join work w on w.contact_id = t.contact_id
join reminder r on r.id = w.reminder_id
cross join lateral (select case when w.begun then 'sending' else w.state end as state) s
where r.purpose = t.purpose or t.purpose is null and not (t.others::jsonb ? r.purpose);

-- name: show_consent
-- $1 contact.
select c.kind, c.scope, c.code, c.at, c.source, c.reason, c.actor, c.recorded_at
from contact k join consent c on c.account_id = k.account_id and c.contact_id = k.id
where k.id = $1::uuid order by c.scope, c.kind;

-- name: show_consent_history
-- $1 contact, $2 rows at most.
select e.kind, e.scope, e.at, e.source, e.reason, e.actor, e.recorded_at
from consent_event e where e.contact_id = $1::uuid order by e.number desc limit $2;

-- name: consents
-- $1 account, $2 contact, $3 scope and $4 kind of the last row of the page before, $5 rows at most. The page is cut
-- before its addresses are looked up: a join that comes first reads all contacts.
select c.contact_id, c.kind, c.scope, k.channel, k.address, c.at, c.source, c.reason
from (select * from consent
      where account_id = (select id from account where name = $1)
        and (contact_id, scope, kind) > ($2::uuid, $3::text, $4::text)
      order by contact_id, scope, kind limit $5) c
join contact k on k.id = c.contact_id
order by c.contact_id, c.scope, c.kind;
