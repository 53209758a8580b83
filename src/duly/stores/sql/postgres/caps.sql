-- Caps: what began lately under a frequency cap. All of it under the lock of the recipient.

-- name: lock_revisions_under_cap
-- $1 delivery ids. As `lock_revisions`, but recipients FOR UPDATE, all of them: whoever counts for one recipient waits
-- for whoever does so before. In one statement and in key order, because two batches may each cap what the other does not.
with w as materialized (
  select account_id, reminder_id, recipient_id, contact_id from work
  where delivery_id = any (array(select unnest($1::uuid[]))))
select (select count(*) from (select from account where id = any (array(select account_id from w))
                              order by id for share) a)
     + (select count(*) from (select from reminder where id = any (array(select reminder_id from w))
                              order by id for share) r)
     + (select count(*) from (select from recipient where id = any (array(select recipient_id from w))
                              order by id for update) p)
     + (select count(*) from (select from contact where id = any (array(select contact_id from w))
                              order by id for share) k);

-- name: cap_asks
-- $1 ids, $2 the number of each one's cap. The latest so many that began for the same recipient, channel and purpose.
-- A later statement than the lock: its snapshot shows what the lock waited for.
select u.delivery_id, w.recipient_id, w.channel, r.purpose, w.doubt,
       exists (select from capped c where c.delivery_id = u.delivery_id),
       array(select c.began_at from capped c
             where c.recipient_id = w.recipient_id and c.channel = w.channel and c.purpose = r.purpose
               and c.delivery_id <> u.delivery_id
             order by c.began_at desc limit u.count)
from unnest($1::uuid[], $2::int[]) u (delivery_id, count)
join work w on w.delivery_id = u.delivery_id
join reminder r on r.id = w.reminder_id;

-- name: take_places
-- $1 ids that have begun just now under a cap. One that has its place keeps it.
insert into capped (delivery_id, recipient_id, channel, purpose, began_at)
select w.delivery_id, w.recipient_id, w.channel, r.purpose, w.since
from work w
join reminder r on r.id = w.reminder_id
where w.delivery_id = any (array(select unnest($1::uuid[])))
on conflict do nothing;

-- name: give_places_back
-- $1 ids that this transaction has moved, so that none of them begins meanwhile. Where every attempt was not sent,
-- nothing has left, and nothing counts. An attempt that a restore has made forgotten is one more.
delete from capped c
using delivery d left join work w on w.delivery_id = d.id
where c.delivery_id = any (array(select unnest($1::uuid[]))) and d.id = c.delivery_id
  and coalesce(w.attempts + w.restored::int, d.attempts) = (
    select count(*) from attempt_result x where x.delivery_id = d.id and x.outcome = 'not_sent');

-- name: forget_places
-- $1 how far back any cap may look, in days, $2 rows at most.
delete from capped
where delivery_id = any (array(
  select delivery_id from capped where began_at < now() - make_interval(days => $1)
  order by began_at limit $2 for update skip locked));

-- name: cap_note
-- $1 ids that a cap has just put off, $2 evidence, $3 worker.
insert into event (account_id, reminder_id, delivery_id, kind, from_state, to_state, actor, reason, evidence)
select w.account_id, w.reminder_id, w.delivery_id, 'decided', 'leased', 'waiting', $3, w.reason, u.evidence::jsonb
from unnest($1::uuid[], $2::text[]) u (delivery_id, evidence)
join work w on w.delivery_id = u.delivery_id;
