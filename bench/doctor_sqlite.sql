-- A ledger of so many deliveries, made by the database itself. What `duly doctor` does not read (frozen requests) is
-- left out. Of each thousand deliveries, by the place in it: 0-939 sent (40 of them after an unknown attempt), 940-949
-- rejected, 950-954 dead, 955-964 ended before an attempt, 965-967 unconfirmed, 968-969 rejected after an attempt that
-- was looked up in vain, 970-999 open: ready, waiting, uncertain, held, leased.

-- name: seed
create temp table seed as
with recursive series (n) as (select 0 union all select n + 1 from series where n < :rows - 1)
select n, n % 1000 as place, randomblob(16) as id, randomblob(16) as reminder, 1 + n % 40 as account, n % 100000 as who,
       case when n % 1000 < 940 then 'sent' when n % 1000 < 950 then 'rejected' when n % 1000 < 955 then 'dead'
            when n % 1000 < 960 then 'expired' when n % 1000 < 965 then 'cancelled' when n % 1000 < 968 then 'unconfirmed'
            when n % 1000 < 970 then 'rejected' end as status,
       case when n % 1000 < 970 then null when n % 1000 < 985 then 'ready' when n % 1000 < 993 then 'waiting'
            when n % 1000 < 997 then 'uncertain' when n % 1000 < 999 then 'held' else 'leased' end as state,
       db_now() - 3600000000 + n * 1000 as due
from series

-- name: seed_pending
update seed set place = 970, status = null, state = 'ready'

-- name: people
create temp table people as
with recursive series (who) as (select 0 union all select who + 1 from series where who < 99999)
select who, randomblob(16) as recipient, randomblob(16) as contact
from series

-- name: people_index
create unique index people_who on people (who)

-- name: accounts
insert into account (name, created_at)
with recursive series (n) as (select 1 union all select n + 1 from series where n < 40)
select 'account-' || n, db_now()
from series

-- name: recipients
insert into recipient (id, account_id, ref) select recipient, 1 + who % 40, 'tenant-' || who from people

-- name: contacts
insert into contact (id, account_id, channel, address, endpoint)
select contact, 1 + who % 40, 'email', 'ana-' || who || '@example.com', zeroblob(16) from people

-- name: reminders
insert into reminder (id, account_id, caller_key, body_hash, recipient_id, inline, channels, template, data, "to", notify_at,
                      deadline_at, late, lane, purpose, status, created_at)
select s.reminder, s.account, 'inspection-' || s.n, zeroblob(32), p.recipient, 1, '["email"]', 'inspection', '{"unit": "4B"}',
       '{"id": "tenant"}', '2026-12-01T09:00Z', s.due + 86400000000, 'drop', 'normal', 'service', 'done', db_now()
from seed s join people p on p.who = s.who order by s.n

-- name: deliveries
insert into delivery (id, account_id, reminder_id, recipient_id, contact_id, endpoint, occurrence, channel, provider, lane,
                      due_at, deadline_at, status, reason, attempts, request_id, finished_at, created_at)
select s.id, s.account, s.reminder, p.recipient, p.contact, zeroblob(16), 'once', 'email', 'mail', 'normal', s.due, s.due + 86400000000,
       s.status, case when s.status is not null then 'because' end, 1,
       case when s.status = 'sent' then 'message-' || s.n end, case when s.status is not null then s.due + 1000000 end, db_now()
from seed s join people p on p.who = s.who order by s.n

-- name: work
insert into work (delivery_id, account_id, provider, lane, state, begun, fence, attempts, doubt, since, next_at, due_at, deadline_at,
                  lease_until, worker, occurrence, channel, reminder_id, recipient_id, contact_id, endpoint)
select s.id, s.account, 'mail', 'normal', s.state, s.state = 'leased', 1, case when s.state = 'ready' then 0 else 1 end,
       s.state in ('uncertain', 'held'), db_now(), db_now() + 3600000000, s.due, s.due + 86400000000,
       case when s.state = 'leased' then db_now() + 3600000000 end, case when s.state = 'leased' then 'worker' end, 'once', 'email',
       s.reminder, p.recipient, p.contact, zeroblob(16)
from seed s join people p on p.who = s.who where s.state is not null order by s.n

-- name: attempts
insert into attempt (delivery_id, number, fence, started_at, worker, provider, payload_hash)
select s.id, k.number, 1, s.due + k.number * 1000000, 'worker', 'mail', zeroblob(32)
from seed s cross join (select 1 as number union all select 2 union all select 3) k
where s.place not between 955 and 964 and s.place not between 970 and 984
  and (k.number = 1 or k.number = 2 and (s.place between 900 and 939 or s.place in (968, 969)) or s.place between 950 and 954)
order by s.n, k.number

-- name: results
insert into attempt_result (delivery_id, number, finished_at, outcome, class, request_id, stale, covered)
select s.id, t.number, t.started_at + 1000000,
       case when s.place < 900 then 'accepted' when s.place < 940 then case t.number when 1 then 'unknown' else 'accepted' end
            when s.place < 950 then 'rejected' when s.place < 955 then 'refused' when s.place < 968 then 'unknown'
            when s.place < 970 then case t.number when 1 then 'unknown' else 'rejected' end
            when s.place < 993 then 'refused' else 'unknown' end,
       'timeout', case when s.place < 940 and (s.place < 900 or t.number > 1) then 'message-' || s.n end, 0,
       s.place in (968, 969) and t.number = 1
from seed s join attempt t on t.delivery_id = s.id where s.place < 999 order by s.n, t.number

-- name: events
insert into event (at, account_id, reminder_id, delivery_id, kind, to_state, actor, reason)
select db_now(), account, reminder, id, 'decision', 'held', 'worker', 'no_way_to_ask' from seed where place >= 900 order by n
