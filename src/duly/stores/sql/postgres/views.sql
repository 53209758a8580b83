-- Views: read-only. Columns come in the order of the words of stores/documents.py.

-- name: part_line
-- A delivery in a list.
l.id, a.name, r.caller_key, l.occurrence, l.channel, l.status, l.reason, l.attempts, l.due_at

-- name: list
-- $1 status, $2 account, $3 channel (null: any), $4 rows at most.
select {part_line}
from ledger l
join account a on a.id = l.account_id
join reminder r on r.id = l.reminder_id
where ($1::text is null or l.status = $1) and ($2::text is null or a.name = $2) and ($3::text is null or l.channel = $3)
order by l.created_at desc, l.id limit $4;

-- name: list_open
-- As `list`, for a state that is not final: read from the open work, however long the ledger is.
select {part_line}
from work w
join ledger l on l.id = w.delivery_id
join account a on a.id = l.account_id
join reminder r on r.id = l.reminder_id
where w.state = case when $1 = 'sending' then 'leased' else $1 end
  and l.status = $1 and ($2::text is null or a.name = $2) and ($3::text is null or l.channel = $3)
order by l.created_at desc, l.id limit $4;

-- name: list_of_reminder
-- $1 account, $2 reminder.
select {part_line}
from ledger l
join account a on a.id = l.account_id
join reminder r on r.id = l.reminder_id
where l.account_id = $1 and l.reminder_id = $2::uuid
order by l.due_at desc, l.id;

-- name: status_open
select case when state = 'leased' and begun then 'sending' else state end, count(*), extract(epoch from now() - min(since))::float8
from work group by 1;

-- name: status_final
select status, count(*), null::float8 from delivery where status is not null group by status;

-- name: status_lanes
-- What is ready and waits for a worker.
select lane, count(*), extract(epoch from now() - min(since))::float8 from work where state = 'ready' group by lane;

-- name: status_failing
-- What was attempted and is not decided yet: for each provider, where it stands and why.
select provider, state, reason, count(*) from work
where state in ('waiting', 'uncertain') and attempts > 0
group by provider, state, reason order by provider, state, reason;

-- name: status_budgets
select provider, endpoint, tokens, rate, blocked_until, block_reason, circuit, failures
from budget order by provider, endpoint;

-- name: status_reminders
-- Reminders that are not due yet, or not yet found by a tick.
select count(*), min(next_due_at) from reminder where next_due_at is not null;

-- name: holds
-- $1 account (null: any), $2 rows at most.
select w.delivery_id, a.name, r.caller_key, w.occurrence, w.channel, w.provider, w.reason, w.attempts, w.since,
       greatest(0, extract(epoch from now() - w.since))::float8, w.alarmed, w.next_at, w.deadline_at
from work w
join account a on a.id = w.account_id
join reminder r on r.id = w.reminder_id
where w.state = 'held' and ($1::text is null or a.name = $1)
order by w.since, w.delivery_id limit $2;

-- name: guard_covered
-- Open rows in doubt of a restore.
select provider, case when begun then 'sending' else state end, count(*), min(due_at)
from work where restored
group by 1, 2 order by 1, 2;

-- name: guard_forgotten
-- $1 endpoints whose names matter. Open rows in doubt of a restore, by what their ways from there depend on.
select w.provider, case when w.endpoint = any ($1::uuid[]) then w.endpoint end,
       a.name, case when w.begun then 'sending' else w.state end, w.granted, w.closed, w.deadline_at <= now(),
       max(extract(epoch from now() - w.first_unknown_at))::float8, count(*)
from work w
join account a on a.id = w.account_id
where w.restored
group by 1, 2, 3, 4, 5, 6, 7, date_trunc('minute', w.first_unknown_at)
order by 1, 2, 3, 4, 8;

-- name: find_account
select exists (select 1 from account where name = $1);

-- name: find_delivery
select d.id from delivery d join account a on a.id = d.account_id
where d.id = $1::uuid and ($2::text is null or a.name = $2);

-- name: find_reminder
select r.id from reminder r join account a on a.id = r.account_id
where r.id = $1::uuid and ($2::text is null or a.name = $2);

-- name: find_key
select r.id from account a join reminder r on r.account_id = a.id and r.caller_key = $1
where a.name = $2;

-- name: show_delivery
-- The last columns but one: what stands in its way while it is open, in the order in which admission asks.
select l.id, a.name, r.caller_key, l.occurrence, l.channel, l.provider, r.template,
       coalesce((select f.template_version from frozen f where f.delivery_id = l.id order by f.number desc limit 1),
                r.template_version),
       l.status, l.reason, l.next_at, l.due_at, l.deadline_at, l.lane,
       (select t.payload_hash from attempt t where t.delivery_id = l.id order by t.number desc limit 1),
       l.request_id, l.lease_until, p.ref, w.restored, coalesce(r.own ->> 'zone', p.zone, r.zone),
       case when r.late <> 'drop' then r.deadline end, d.summary_id, r.purpose, r.created_at,
       (select max(e.at) from event e
        where e.reminder_id = r.id and e.delivery_id is null and e.kind = 'revised' and e.at <= d.created_at),
       l.since, d.finished_at, coalesce(r.own ->> 'zone', p.zone),
       case when w.delivery_id is null then null
            else case {part_standing_of_reminder}
                 when 'cancelled' then 'reminder_cancelled' when 'called_off' then 'called_off'
                 else coalesce({part_objection},
                   case when a.paused then 'account_paused' end,
                   case {part_standing_of_reminder} when 'template_paused' then 'template_paused'
                        when 'paused' then 'reminder_paused' end) end end,
       d.contact_id
from ledger l
join delivery d on d.id = l.id
join account a on a.id = l.account_id
join reminder r on r.id = l.reminder_id
left join recipient p on p.id = l.recipient_id
left join work w on w.delivery_id = l.id
left join contact k on k.id = d.contact_id
where l.id = $1::uuid;

-- name: show_folded
-- What a summary has taken up, and has not lost to another one since.
select {part_line}
from delivery d
join ledger l on l.id = d.id
join account a on a.id = l.account_id
join reminder r on r.id = l.reminder_id
where d.summary_id = $1::uuid
order by l.due_at, l.id;

-- name: show_attempts
select t.number, t.started_at, r.finished_at, r.outcome, r.class, r.http_status, r.request_id, t.payload_hash,
       r.retry_after::float8, r.excerpt, t.worker, r.detail, coalesce(r.covered, false)
from attempt t left join attempt_result r on r.delivery_id = t.delivery_id and r.number = t.number
where t.delivery_id = $1::uuid order by t.number;

-- name: show_reminder_events
select e.at, e.kind, e.from_state, e.to_state, e.actor, e.reason, e.evidence
from event e where e.reminder_id = $1::uuid and e.delivery_id is null order by e.id;

-- name: show_events
select e.at, e.kind, e.from_state, e.to_state, e.actor, e.reason, e.evidence
from delivery d join event e on e.reminder_id = d.reminder_id and e.delivery_id = d.id
where d.id = $1::uuid order by e.id;

-- name: show_reminder
select r.id, a.name, r.caller_key, r.status, r.schedule,
       case when r.follows_recipient then coalesce(p.zone, r.zone) else r.zone end, r.template, r.template_version,
       r.next_due_at, r.next_label, r.missed, r.group_key,
       coalesce(r.own ->> 'zone', p.zone), r.notify_at, r.generation, r.purpose,
       r.deadline, r.late, r.late_until, r.account_id
from reminder r
join account a on a.id = r.account_id
left join recipient p on p.id = r.recipient_id
where r.id = $1::uuid;

-- name: show_ahead
-- $1 reminder. What is still to come of it: by which channels, to which addresses, and what is paused of it.
select a.name, a.paused, exists (select from paused_template t where t.template = r.template), r.channels,
       case when r.inline then r.addresses else p.addresses end
from reminder r
join account a on a.id = r.account_id
left join recipient p on p.id = r.recipient_id
where r.id = $1::uuid and r.next_due_at is not null;

-- name: show_objection
-- $1 reminder, $2 channel, $3 contact: why nothing of it may go there.
select {part_objection}
from (select $2::text as channel) w
cross join reminder r
left join recipient p on p.id = r.recipient_id
left join contact k on k.id = $3::uuid
where r.id = $1::uuid;

-- name: submission
select r.caller_key, a.name, r."to", r.channels, r.template, r.data, r.notify_at, r.schedule, r.zone, r.missed, r.grace,
       r.deadline, r.late, r.late_until, r.group_key, r.lane, r.purpose, r.event_version, r.follows_recipient, p.zone
from reminder r
join account a on a.id = r.account_id
left join recipient p on p.id = r.recipient_id
where r.id = $1::uuid;

-- name: group_of
-- $1 account, $2 group, $3 the last id of the page before, $4 rows at most.
select r.id from reminder r
where r.account_id = (select id from account where name = $1) and r.group_key = $2 and r.id > $3::uuid
order by r.id limit $4;
