-- Revise: a newer version of a reminder, and what became of its occurrences.

-- name: reminder_standing
-- $1 id. What was due under a restore guard may have been sent: `covered`.
select r.account_id, r.revision, r.status, r.event_version, r.generation,
       exists (select from guard g where r.next_due_at <= least(clock_timestamp(), coalesce(g.closed_at, 'infinity'))),
       r.next_due_at, r.next_label, r.schedule, r.zone, r.recipient_id, r.addresses, r.channels
from reminder r where r.id = $1::uuid;

-- name: fates
-- $1 account, $2 reminder, $3 labels: and whatever is open. Occurrences of other generations carry `#2` behind their label.
-- What is folded into a summary of which nothing can have left waits, in effect: a revision takes it out.
select l.id, l.occurrence,
       case when l.status = 'folded' and exists (
         select from delivery d join delivery s on s.id = d.summary_id left join work w on w.delivery_id = s.id
         where d.id = l.id and (w.state in ('ready', 'waiting', 'leased') and not w.begun and not w.doubt
                                or s.status not in ('sent', 'unconfirmed')))
       then 'waiting' else l.status end, coalesce(l.doubt, false)
from ledger l
where l.account_id = $1 and l.reminder_id = $2::uuid
  and (l.finished_at is null or split_part(l.occurrence, '#', 1) = any ($3::text[]))
order by l.created_at, l.id;

-- name: lock_revision
-- $1 id. First of all locks, as for a cancel: a begin waits for it. What a restore guard covers may have been sent: it is
-- not moved out of its reach, also where the guard was opened since somebody looked.
select account_id, revision, status, next_due_at from reminder
where id = $1::uuid and not exists (
  select from guard g where next_due_at <= least(clock_timestamp(), coalesce(g.closed_at, 'infinity')))
for update;

-- name: revise_reminder
-- $1 id of a locked reminder, $2 actor, $3 reason, $4 whether the body as first submitted stays, $5 generation, and one
-- value per column.
with r as (
  update reminder
  set recipient_id = $6::uuid, inline = $7, addresses = $8::jsonb, channels = string_to_array($9, ','), template = $10,
      data = $11::jsonb, "to" = $12::jsonb, notify_at = $13, zone = $14, deadline = $15, deadline_at = $16::timestamptz,
      late = $17, lane = $18, purpose = $19, event_version = coalesce($20::int, event_version),
      next_due_at = $21::timestamptz, schedule = $22, next_label = $23, follows_recipient = $24, zone_data = $25,
      missed = $26, grace = $27, late_until = $28, group_key = $29, generation = $5, own = null,
      body_hash = case when $4 then body_hash else $30::bytea end, template_version = $31, quiet_hours = $32::jsonb,
      status = case when status = 'paused' and not $34 then 'paused' else 'active' end, revision = revision + 1
  where id = $1::uuid
  returning id, account_id, status)
insert into event (account_id, reminder_id, kind, from_state, to_state, actor, reason, evidence)
select r.account_id, r.id, 'revised', $33, r.status, $2, $3, $35::jsonb from r;

-- name: generations
-- $1 ids of deliveries: whether another one of the same occurrence was written later, and how its reminder stands. The
-- reminders are locked, so that none is revised before what was asked for is done.
select d.id,
       exists (select from delivery o
               where o.account_id = d.account_id and o.reminder_id = d.reminder_id and o.channel = d.channel
                 and o.created_at > d.created_at and o.occurrence like split_part(d.occurrence, '#', 1) || '#%'),
       d.occurrence, r.generation, r.schedule
from delivery d join reminder r on r.id = d.reminder_id
where d.id = any (array(select unnest($1::uuid[])))
order by r.id for share of r;
