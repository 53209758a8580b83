-- Fold: late deliveries are taken up by a summary, and its end becomes theirs. Reminders are locked before work.

-- name: lock_reminders
-- $1 ids of deliveries, $2 their groups. Their reminders, so that whoever changes one waits or is seen, and those of the
-- summaries that gather for them: what is in one changes under this lock only.
select r.id from reminder r
where r.id = any (array(
  select m.reminder_id from work m where m.delivery_id = any (array(select unnest($1::uuid[])))
  union
  select g.reminder_id
  from unnest($1::uuid[], $2::text[]) u (delivery_id, bundle)
  join work m on m.delivery_id = u.delivery_id
  join work g on g.account_id = m.account_id and g.recipient_id = m.recipient_id and g.contact_id = m.contact_id
             and g.provider = m.provider and g.gathering = u.bundle))
order by r.id for update;

-- name: summaries_among
-- $1 ids of reminders.
select d.id from reminder r join delivery d on d.account_id = r.account_id and d.reminder_id = r.id
where r.id = any (array(select unnest($1::uuid[]))) and d.summarizes
order by d.id;

-- name: let_go
-- $1 ids of locked summaries. In doubt, only its own bytes may go out, and nothing of what was called off: another one
-- gathers in its place.
update work w set gathering = null
where w.delivery_id = any (array(select unnest($1::uuid[]))) and w.gathering is not null
  and (w.doubt or w.called_off or w.state in ('uncertain', 'held'));

-- name: foldable
-- $1 ids, $2 fences, $3 revisions of their reminders, $4 groups, $5 worker, $6 summaries that are locked. Locked rows of
-- this worker, with what gathers for them. Where that is in somebody's hands, or came to be just now, a row is left out.
select m.delivery_id, a.name, m.channel, m.recipient_id, m.contact_id, m.due_at, m.deadline_at, m.folds,
       g.delivery_id, g.reminder_id, r.data::text, g.due_at, g.deadline_at, g.next_at
from unnest($1::uuid[], $2::int[], $3::int[], $4::text[]) u (delivery_id, fence, revision, bundle)
join work m on m.delivery_id = u.delivery_id and m.fence = u.fence
join reminder o on o.id = m.reminder_id and o.revision = u.revision
join account a on a.id = m.account_id
left join work g on g.account_id = m.account_id and g.recipient_id = m.recipient_id and g.contact_id = m.contact_id
                and g.provider = m.provider and g.gathering = u.bundle
left join reminder r on r.id = g.reminder_id
where m.state = 'leased' and not m.begun and not m.doubt and m.worker = $5 and (select open from gate)
  and (g.delivery_id is null
       or g.state in ('ready', 'waiting')
          and g.delivery_id = any (array(select unnest($6::uuid[]))));

-- name: add_summary
-- $1 id, $2 reminder, $3 the caller's key, $4 hash of the body, $5 the delivery that lends it the rest, $6 template, $7
-- data, $8 due at, $9 deadline, $10 when it is sent, $11 group (null: it is full), $12 since when it is late, $13 actor.
-- Nothing if another one gathers by now.
with made as (
  insert into work (delivery_id, account_id, provider, lane, state, reason, next_at, due_at, deadline_at, occurrence,
                    channel, reminder_id, recipient_id, contact_id, endpoint, gathering)
  select $1::uuid, w.account_id, w.provider, w.lane, 'waiting', 'summary_gathers', $10::timestamptz, $8::timestamptz,
         $9::timestamptz, 'once', w.channel, $2::uuid, w.recipient_id, w.contact_id, w.endpoint, $11
  from work w
  where w.delivery_id = $5::uuid and not exists (select from delivery d where d.id = $1::uuid)
  on conflict do nothing
  returning delivery_id, account_id, provider, lane, due_at, deadline_at, channel, reminder_id, recipient_id, contact_id,
            endpoint),
asked as (
  insert into reminder (id, account_id, caller_key, body_hash, recipient_id, inline, channels, template, data, "to",
                        notify_at, deadline, deadline_at, late, lane, purpose, status, quiet_hours)
  select m.reminder_id, m.account_id, $3, $4::bytea, m.recipient_id, false, array[m.channel], $6, $7::jsonb, r."to",
         $12, $12, m.deadline_at, 'send_marked', m.lane, r.purpose, 'done', r.quiet_hours
  from made m join work w on w.delivery_id = $5::uuid join reminder r on r.id = w.reminder_id),
head as (
  insert into delivery (id, account_id, reminder_id, recipient_id, contact_id, endpoint, occurrence, channel, provider,
                        lane, due_at, deadline_at, summarizes)
  select m.delivery_id, m.account_id, m.reminder_id, m.recipient_id, m.contact_id, m.endpoint, 'once', m.channel,
         m.provider, m.lane, m.due_at, m.deadline_at, true
  from made m)
insert into event (account_id, reminder_id, delivery_id, kind, to_state, actor, reason)
select m.account_id, m.reminder_id, m.delivery_id, 'summary_made', 'waiting', $13, 'summary_gathers' from made m
returning delivery_id;

-- name: extend_summary
-- $1 id, $2 reminder, $3 data, $4 due at, $5 deadline, $6 group (null: it is full), $7 no later than when it is sent if it
-- only gathers. The revision rises: whoever claims it at this moment may have read what was in it before.
with row as (
  update work
  set due_at = $4::timestamptz, deadline_at = $5::timestamptz, gathering = $6,
      next_at = case when reason = 'summary_gathers' then least(next_at, $7::timestamptz) else next_at end
  where delivery_id = $1::uuid),
head as (
  update delivery set due_at = $4::timestamptz, deadline_at = $5::timestamptz where id = $1::uuid)
update reminder set data = $3::jsonb, deadline_at = $5::timestamptz, revision = revision + 1 where id = $2::uuid;

-- name: fold
-- $1 ids of locked rows, $2 their summaries, $3 evidence, $4 actor.
with folded as (
  update work w
  set state = 'folded', reason = 'late', folds = w.folds + 1, since = clock_timestamp(), lease_until = null, worker = null
  where w.delivery_id = any (array(select unnest($1::uuid[])))
  returning w.delivery_id, w.account_id, w.reminder_id),
head as (
  update delivery d set summary_id = u.summary_id
  from unnest($1::uuid[], $2::uuid[]) u (delivery_id, summary_id) where d.id = u.delivery_id)
insert into event (account_id, reminder_id, delivery_id, kind, from_state, to_state, actor, reason, evidence)
select f.account_id, f.reminder_id, f.delivery_id, 'folded', 'leased', 'folded', $4, 'late', u.evidence::jsonb
from folded f join unnest($1::uuid[], $3::text[]) u (delivery_id, evidence) on u.delivery_id = f.delivery_id;

-- name: folded_of
-- $1 account, $2 reminder.
select w.delivery_id from delivery d join work w on w.delivery_id = d.id
where d.account_id = $1 and d.reminder_id = $2::uuid and w.state = 'folded'
order by w.delivery_id;

-- name: summaries_of
-- $1 ids of locked, folded rows.
select distinct summary_id from delivery where id = any (array(select unnest($1::uuid[]))) order by summary_id;

-- name: retire_summaries
-- $1 ids of locked, folded rows, $2 their summaries, locked as far as they are open, $3 actor. These end, if nothing of
-- them can have left, and the rows are ready again; so they are where a summary has come to nothing already. The others
-- in it follow: see share_fates. What may have left is called off: it is not sent once more.
with gone as (
  delete from work w
  where w.delivery_id = any (array(select unnest($2::uuid[])))
    and w.state in ('ready', 'waiting', 'leased') and not w.begun and not w.doubt
  returning w.delivery_id, w.account_id, w.reminder_id, w.attempts, w.state),
head as (
  update delivery d
  set status = 'cancelled', reason = 'summary_retired', attempts = g.attempts, finished_at = clock_timestamp()
  from gone g where d.id = g.delivery_id),
called as (
  update work w set called_off = true
  where w.delivery_id = any (array(select unnest($2::uuid[]))) and not w.called_off
    and not (w.state in ('ready', 'waiting', 'leased') and not w.begun and not w.doubt)
  returning w.delivery_id, w.account_id, w.reminder_id, case when w.begun then 'sending' else w.state end as state),
remembered as (
  update delivery d set called_off = true from called c where d.id = c.delivery_id),
back as (
  update work w set state = 'ready', reason = null, since = clock_timestamp(), next_at = clock_timestamp()
  from delivery d
  where w.delivery_id = any (array(select unnest($1::uuid[]))) and d.id = w.delivery_id and w.state || '' = 'folded'
    and (d.summary_id in (select delivery_id from gone)
         or exists (select from delivery s where s.id = d.summary_id and s.status not in ('sent', 'unconfirmed')))
  returning w.delivery_id, w.account_id, w.reminder_id)
insert into event (account_id, reminder_id, delivery_id, kind, from_state, to_state, actor, reason)
select g.account_id, g.reminder_id, g.delivery_id, 'cancelled', g.state, 'cancelled', $3, 'summary_retired' from gone g
union all
select c.account_id, c.reminder_id, c.delivery_id, 'cancelled', c.state, c.state, $3, 'summary_retired' from called c
union all
select b.account_id, b.reminder_id, b.delivery_id, 'unfolded', 'folded', 'ready', $3, 'summary_retired' from back b;

-- name: share_fates
-- $1 summaries at most, $2 actor. The end of a summary becomes that of what is folded into it, or it is ready again. Once
-- it is known that a summary was accepted, so was whatever it carried, where nothing else is known of that by now. The
-- reasons are those of duly.core.folding.
with ended as materialized (
  select id, status, reason, finished_at from delivery
  where summarizes and status is not null and status is distinct from shared_as
  order by id limit $1 for update skip locked),
member as materialized (
  select w.delivery_id, w.state, e.status, e.reason, e.finished_at
  from ended e join delivery d on d.summary_id = e.id join work w on w.delivery_id = d.id
  where w.state = 'folded' or e.status = 'sent' and not w.begun
  order by w.delivery_id for update of w skip locked),
back as (
  update work w
  set state = 'ready', reason = null, since = clock_timestamp(), next_at = clock_timestamp(),
      returned = w.returned + (m.reason <> 'summary_retired')::int
  from member m
  where w.delivery_id = any (array(select delivery_id from member where status not in ('sent', 'unconfirmed')))
    and m.delivery_id = w.delivery_id and w.state || '' = 'folded'
  returning w.delivery_id, w.account_id, w.reminder_id,
            case m.reason when 'summary_retired' then m.reason else concat('summary_', m.status) end as reason),
gone as (
  delete from work w using member m
  where w.delivery_id = any (array(select delivery_id from member where status in ('sent', 'unconfirmed')))
    and m.delivery_id = w.delivery_id and not w.begun
  returning w.delivery_id, w.account_id, w.reminder_id, w.attempts, m.state, m.status, m.finished_at),
head as (
  update delivery d
  set status = g.status, reason = concat('summary_', g.status), attempts = g.attempts, finished_at = g.finished_at
  from gone g where d.id = g.delivery_id),
corrected as (
  update delivery d set status = 'sent', reason = 'summary_sent', finished_at = e.finished_at
  from ended e join delivery o on o.summary_id = e.id
  where e.status = 'sent' and o.status is not null and o.status <> 'sent' and d.id = o.id
  returning d.id, d.account_id, d.reminder_id, o.status as was),
noted as (
  insert into event (account_id, reminder_id, delivery_id, kind, from_state, to_state, actor, reason)
  select b.account_id, b.reminder_id, b.delivery_id, 'unfolded', 'folded', 'ready', $2, b.reason from back b
  union all
  select g.account_id, g.reminder_id, g.delivery_id, 'unfolded', g.state, g.status, $2, concat('summary_', g.status) from gone g
  union all
  select c.account_id, c.reminder_id, c.id, 'corrected', c.was, 'sent', $2, 'summary_sent' from corrected c)
select (select count(*) from back), (select count(*) filter (where status = 'sent') from gone),
       (select count(*) filter (where status = 'unconfirmed') from gone),
       coalesce((select array_agg(id) from ended), '{}'), coalesce((select array_agg(status) from ended), '{}');

-- name: close_summaries
-- $1 ids, $2 ends that were shared. What somebody held just now comes with the next round.
update delivery s set shared_as = s.status
from unnest($1::uuid[], $2::text[]) u (id, status)
where s.id = any (array(select unnest($1::uuid[]))) and s.id = u.id and s.status = u.status
  and not exists (
    select from delivery d join work w on w.delivery_id = d.id
    where d.summary_id = s.id and (w.state = 'folded' or s.status = 'sent' and not w.begun));
