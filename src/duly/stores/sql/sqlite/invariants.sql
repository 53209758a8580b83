-- Invariants: what must hold in every ledger. Each statement counts the rows that break it.
-- Attempts and results may be dropped by age, so an absence proves something only while their row is open.

-- name: invariant_open_delivery_has_work
select count(*) from delivery d where d.status is null and not exists (select 1 from work w where w.delivery_id = d.id);

-- name: invariant_final_delivery_has_no_work
select count(*) from work w join delivery d on d.id = w.delivery_id where d.status is not null;

-- name: invariant_work_has_delivery
select count(*) from work w where not exists (select 1 from delivery d where d.id = w.delivery_id);

-- name: invariant_work_can_be_claimed
select count(*) from work w
where not exists (select 1 from account a where a.id = w.account_id)
   or not exists (select 1 from reminder r where r.id = w.reminder_id)
   or not exists (select 1 from recipient p where p.id = w.recipient_id)
   or not exists (select 1 from contact k where k.id = w.contact_id);

-- name: invariant_lease_has_worker
select count(*) from work where (state = 'leased') <> (worker is not null and lease_until is not null);

-- name: invariant_begun_has_attempt
select count(*) from work w
where w.begun and (w.state <> 'leased' or not exists (
  select 1 from attempt t where t.delivery_id = w.delivery_id and t.number = w.attempts and t.fence = w.fence));

-- name: invariant_attempt_before_deadline
select count(*) from attempt t join delivery d on d.id = t.delivery_id where t.started_at >= d.deadline_at;

-- name: invariant_accepted_is_sent
select count(*) from attempt_result r join delivery d on d.id = r.delivery_id
where r.outcome = 'accepted' and d.status is not 'sent';

-- name: invariant_sent_has_evidence
select count(*) from delivery d
where d.status = 'sent'
  and exists (select 1 from attempt t where t.delivery_id = d.id)
  and not exists (select 1 from attempt_result r where r.delivery_id = d.id and r.outcome = 'accepted')
  and not exists (select 1 from event e where e.reminder_id = d.reminder_id and e.delivery_id = d.id and e.to_state = 'sent');

-- name: invariant_doubt_is_not_finished
select count(*) from delivery d
where d.status in ('rejected', 'dead', 'expired', 'suppressed', 'cancelled', 'shadowed', 'skipped') and exists (
  select 1 from attempt t left join attempt_result r on r.delivery_id = t.delivery_id and r.number = t.number
  where t.delivery_id = d.id and (r.outcome is null or r.outcome = 'unknown'));

-- name: invariant_unknown_is_doubt
select count(*) from attempt_result r join work w on w.delivery_id = r.delivery_id
where r.outcome = 'unknown' and not w.doubt;

-- name: invariant_final_has_reason
select count(*) from delivery where status is not null and (reason is null or reason = '' or finished_at is null);
