-- The ideal loop's statements. Same rows, fences and locks as src/duly/stores/sql/postgres, without what a first
-- attempt of an accepted webhook does not need: fairness across accounts, doubt, budgets, corrections.

-- name: claim
-- $1 provider, $2 rows at most, $3 worker, $4 lease in seconds.
with pick as materialized (
  select delivery_id from work
  where state = 'ready' and suspicion = 0 and provider = $1 and lane = 'normal'
  order by account_id, next_at, delivery_id
  limit $2 for update skip locked),
leased as (
  update work w
  set state = 'leased', begun = false, fence = w.fence + 1, worker = $3, reason = null, since = now(),
      lease_until = now() + make_interval(secs => $4)
  where w.delivery_id = any (array(select delivery_id from pick)) and w.state || '' = 'ready'
  returning w.delivery_id, w.fence, w.account_id, w.reminder_id, w.recipient_id, w.contact_id, w.occurrence, w.due_at)
select w.delivery_id, w.fence, a.revision, r.revision, p.revision, k.revision,
       w.reminder_id, w.recipient_id, w.contact_id,
       a.name, r.caller_key, w.occurrence, w.due_at, k.address, p.ref, p.name, r.data
from leased w
join account a on a.id = w.account_id
join reminder r on r.id = w.reminder_id
join recipient p on p.id = w.recipient_id
join contact k on k.id = w.contact_id;

-- name: lock
-- $1 reminders, $2 recipients, $3 contacts.
select (select count(*) from (select from reminder where id = any ($1::uuid[]) order by id for share) r)
     + (select count(*) from (select from recipient where id = any ($2::uuid[]) order by id for share) p)
     + (select count(*) from (select from contact where id = any ($3::uuid[]) order by id for share) k);

-- name: begin
-- $1 ids, $2 fences, $3..$6 revisions, $7 destinations, $8 bodies, $9 hashes, $10 worker, $11 seconds of lease that must
-- be left, $12 provider, $13 template, $14 its version.
with want as (
  select * from unnest($1::uuid[], $2::int[], $3::int[], $4::int[], $5::int[], $6::int[], $7::text[], $8::bytea[],
                       $9::bytea[])
    u (delivery_id, fence, account_revision, reminder_revision, recipient_revision, contact_revision, destination,
       body, hash)),
begun as (
  update work w set begun = true, attempts = w.attempts + 1, since = clock_timestamp()
  from want u
  where w.delivery_id = any (array(select unnest($1::uuid[])))
    and w.delivery_id = u.delivery_id and w.fence = u.fence and w.state || '' = 'leased' and not w.begun
    and w.worker = $10 and w.lease_until > clock_timestamp() + make_interval(secs => $11)
    and w.deadline_at > clock_timestamp()
    and u.account_revision = (select a.revision from account a where a.id = w.account_id)
    and u.reminder_revision = (select r.revision from reminder r where r.id = w.reminder_id)
    and u.recipient_revision = (select p.revision from recipient p where p.id = w.recipient_id)
    and u.contact_revision = (select k.revision from contact k where k.id = w.contact_id)
  returning w.delivery_id, w.attempts, w.fence, u.destination, u.body, u.hash,
            u.reminder_revision, u.recipient_revision, u.contact_revision),
tried as (
  insert into attempt (delivery_id, number, fence, started_at, worker, provider, payload_hash)
  select delivery_id, attempts, fence, clock_timestamp(), $10, $12, hash from begun),
kept as (
  insert into frozen (delivery_id, number, destination, body, template, template_version,
                      reminder_revision, recipient_revision, contact_revision)
  select delivery_id, attempts, destination, body, $13, $14,
         reminder_revision, recipient_revision, contact_revision from begun)
select delivery_id, attempts from begun;

-- name: settle
-- $1 ids, $2 fences, $3 attempt numbers, $4 finished at. Everything was accepted.
with r as (
  select * from unnest($1::uuid[], $2::int[], $3::int[], $4::timestamptz[]) u (delivery_id, fence, number, finished_at)),
gone as (
  delete from work w using r
  where w.delivery_id = any (array(select unnest($1::uuid[])))
    and w.delivery_id = r.delivery_id and w.fence = r.fence and w.state || '' = 'leased' and w.begun
  returning w.delivery_id),
head as (
  update delivery d set status = 'sent', reason = 'accepted', attempts = r.number, finished_at = r.finished_at
  from r
  where d.id = any (array(select unnest($1::uuid[])))
    and d.id = r.delivery_id and d.status is null and (d.id in (select delivery_id from gone)) is true)
insert into attempt_result (delivery_id, number, finished_at, outcome, http_status, stale)
select delivery_id, number, finished_at, 'accepted', 200, delivery_id not in (select delivery_id from gone) from r
on conflict do nothing
returning delivery_id;
