-- Revise: a newer version of a reminder, and what became of its occurrences.

-- name: reminder_standing
-- What was due under a restore guard may have been sent: `covered`.
select r.account_id, r.revision, r.status, r.event_version, r.generation,
       exists (select 1 from guard g where r.next_due_at <= min(db_now(), coalesce(g.closed_at, db_now()))),
       r.next_due_at, r.next_label, r.schedule, r.zone, r.recipient_id, r.addresses, r.channels
from reminder r where r.id = :id;

-- name: fates
-- Whatever is open, and :labels, JSON list. Occurrences of other generations carry `#2` behind their label. What is folded
-- into a summary of which nothing can have left waits, in effect: a revision takes it out.
select l.id, l.occurrence,
       case when l.status = 'folded' and exists (
         select 1 from delivery d join delivery s on s.id = d.summary_id left join work w on w.delivery_id = s.id
         where d.id = l.id and (w.state in ('ready', 'waiting', 'leased') and not w.begun and not w.doubt
                                or s.status not in ('sent', 'unconfirmed')))
       then 'waiting' else l.status end, coalesce(l.doubt, 0)
from ledger l
where l.account_id = :account and l.reminder_id = :reminder
  and (l.finished_at is null
       or case when instr(l.occurrence, '#') then substr(l.occurrence, 1, instr(l.occurrence, '#') - 1) else l.occurrence end
          in (select value from json_each(:labels)))
order by l.created_at, l.id;

-- name: reminder_revise
-- What a restore guard covers may have been sent: it is not moved out of its reach, also where the guard was opened since
-- somebody looked.
update reminder
set recipient_id = :recipient, inline = :inline, addresses = :addresses, channels = :channels, template = :template,
    data = :data, "to" = :to, notify_at = :notify_at, zone = :zone, deadline = :deadline, deadline_at = :deadline_at,
    late = :late, lane = :lane, purpose = :purpose, event_version = coalesce(:event_version, event_version),
    next_due_at = :next_due_at, schedule = :schedule, next_label = :next_label, follows_recipient = :follows_recipient,
    zone_data = :zone_data, missed = :missed, grace = :grace, late_until = :late_until,
    quiet_hours = :quiet_hours, group_key = :group, generation = :generation, own = null, template_version = :template_version,
    body_hash = case when :keep_body then body_hash else :body_hash end,
    status = case when status = 'paused' and not :wake then 'paused' else 'active' end, revision = revision + 1
where id = :id and revision = :seen and next_due_at is :seen_due and status <> 'cancelled' and not exists (
  select 1 from guard g where next_due_at <= min(db_now(), coalesce(g.closed_at, db_now())));

-- name: generations
-- :ids of deliveries: whether another one of the same occurrence was written later, and how its reminder stands.
with recursive place (at) as (select 1 union all select at + 16 from place where at + 16 < length(:ids))
select d.id,
       exists (select 1 from delivery o
               where o.account_id = d.account_id and o.reminder_id = d.reminder_id and o.channel = d.channel
                 and o.created_at > d.created_at
                 and o.occurrence like substr(d.occurrence || '#', 1, instr(d.occurrence || '#', '#')) || '%'),
       d.occurrence, r.generation, r.schedule
from place cross join delivery d on d.id = substr(:ids, place.at, 16) join reminder r on r.id = d.reminder_id;
