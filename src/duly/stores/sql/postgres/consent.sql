-- Consent: the rule of it, what was said, and what stands. The rule in words, and in Python, is core/consent.py.

-- name: part_objection
-- Why nothing may go there, or null. Aliases: w has account_id and channel, r is the reminder, p its recipient, k the
-- contact. Looks at consent only where the contact says that there is something to see.
case when p.deleted_at is not null then 'recipient_deleted'
     when w.channel = any (p.disabled) then 'channel_disabled'
     when k.suppressed is not null then k.suppressed
     when k.silenced then (
       select c.code from consent c
       where c.account_id = k.account_id and c.contact_id = k.id and c.code is not null
         and (c.scope = r.purpose or c.scope = 'all' and r.purpose <> 'security')
       order by c.scope = 'all', c.kind limit 1) end

-- name: part_standing_of_reminder
-- The reminder's status as admission takes it: called off for this delivery alone, or its template is paused.
case when r.status = 'cancelled' then r.status when w.called_off then 'called_off'
     when r.status <> 'paused' and r.template in (select t.template from paused_template t) then 'template_paused'
     else r.status end
