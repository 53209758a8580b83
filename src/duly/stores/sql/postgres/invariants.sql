-- Invariants: what must hold in every ledger. Each statement counts the rows that break it.
-- Attempts and results may be dropped by age, so an absence proves something only while their row is open.
-- Findings, at the end: what breaks nothing and still wants somebody.
-- Each is measured at a million deliveries (bench/doctor.py).

-- name: invariant_open_delivery_has_work
select count(*) from delivery d where d.status is null and not exists (select from work w where w.delivery_id = d.id);

-- name: invariant_final_delivery_has_no_work
select count(*) from work w join delivery d on d.id = w.delivery_id where d.status is not null;

-- name: invariant_work_has_delivery
select count(*) from work w where not exists (select from delivery d where d.id = w.delivery_id);

-- name: invariant_work_can_be_claimed
select count(*)
from work w
left join account a on a.id = w.account_id
left join reminder r on r.id = w.reminder_id
left join recipient p on p.id = w.recipient_id
left join contact k on k.id = w.contact_id
where a.id is null or r.id is null or p.id is null or k.id is null;

-- name: invariant_lease_has_worker
select count(*) from work where (state = 'leased') <> (worker is not null and lease_until is not null);

-- name: invariant_begun_has_attempt
select count(*) from work w
where w.begun and (w.state <> 'leased' or not exists (
  select from attempt t where t.delivery_id = w.delivery_id and t.number = w.attempts and t.fence = w.fence));

-- name: invariant_attempt_before_deadline
-- Whatever ended before its deadline had no attempt after it.
select count(*) from delivery d join attempt t on t.delivery_id = d.id
where coalesce(d.finished_at, clock_timestamp()) >= d.deadline_at and t.started_at >= d.deadline_at;

-- name: invariant_accepted_is_sent
select count(*) from delivery d join attempt_result r on r.delivery_id = d.id
where d.status is distinct from 'sent' and r.outcome = 'accepted';

-- name: invariant_sent_has_evidence
select count(*) from delivery d
where d.status = 'sent'
  and not exists (select from attempt_result r where r.delivery_id = d.id and r.outcome = 'accepted')
  and exists (select from attempt t where t.delivery_id = d.id)
  and not exists (select from event e where e.reminder_id = d.reminder_id and e.delivery_id = d.id and e.to_state = 'sent');

-- name: invariant_doubt_is_not_finished
select count(*) from delivery d
where d.status in ('rejected', 'dead', 'expired', 'suppressed', 'cancelled', 'shadowed', 'skipped') and exists (
  select from attempt t left join attempt_result r on r.delivery_id = t.delivery_id and r.number = t.number
  where t.delivery_id = d.id and (r.outcome is null or r.outcome = 'unknown' and not r.covered));

-- name: invariant_unknown_is_doubt
select count(*) from attempt_result r join work w on w.delivery_id = r.delivery_id
where r.outcome = 'unknown' and not r.covered and not w.doubt;

-- name: invariant_final_has_reason
select count(*) from delivery where status is not null and (reason is null or reason = '' or finished_at is null);

-- name: invariant_folded_has_summary
-- One that is open, or whose end is about to be shared.
select count(*) from work w join delivery d on d.id = w.delivery_id
where w.state = 'folded' and not exists (
  select from delivery s
  where s.id = d.summary_id and s.summarizes and (s.status is null or s.status is distinct from s.shared_as));

-- name: invariant_restored_is_doubt
-- Counted misses, a definite answer or a decision end both at once.
select count(*) from work where restored and not doubt;

-- name: invariant_held_has_an_end
-- No configuration can ask for more.
select count(*) from work where state = 'held' and next_at > clock_timestamp() + interval '3661 days';

-- name: invariant_no_attempt_under_guard
-- One that began before the opening came to its row leaves an event that is later than itself.
select count(*)
from guard g
join attempt t on t.started_at > g.opened_at and (g.closed_at is null or t.started_at < g.closed_at)
join delivery d on d.id = t.delivery_id
where not exists (
  select from event e
  where e.reminder_id = d.reminder_id and e.delivery_id = d.id and e.kind = 'restored' and e.at >= t.started_at);

-- name: invariant_double_acceptance_is_told
-- A webhook receiver's request id names a request, not the message: two of them prove no second one.
select count(*) from attempt_result r join delivery d on d.id = r.delivery_id
where r.number > 1 and r.outcome = 'accepted' and r.request_id is not null and d.channel <> 'webhook'
  and exists (
    select from attempt_result e
    where e.delivery_id = r.delivery_id and e.number < r.number and e.outcome = 'accepted' and e.request_id <> r.request_id)
  and not exists (
    select from event e
    where e.reminder_id = d.reminder_id and e.delivery_id = d.id and e.kind = 'double_acceptance');

-- name: invariant_consent_reaches_admission
-- What silences by its entry is told by the contact, which is what a claim reads first.
select count(*) from consent c join contact k on k.id = c.contact_id
where c.code is not null and not case when c.scope = 'all+security' then k.suppressed is not null else k.silenced end;

-- name: finding_guard_open
select count(*) from guard where closed_at is null;

-- name: finding_provider_not_configured
select count(*) from work where provider <> all($1::text[]);

-- name: finding_hold_past_its_alarm
select count(*) from work where state = 'held' and (alarmed or next_at <= clock_timestamp());

-- name: finding_lease_not_taken_back
select count(*) from work where state = 'leased' and lease_until < clock_timestamp() - interval '60 s';
