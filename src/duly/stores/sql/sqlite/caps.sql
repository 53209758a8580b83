-- Caps: what began lately under a frequency cap. All of it under the writer's turn.

-- name: cap_ask
-- Who would get the open delivery, and whether it counts already, or may have arrived.
select w.recipient_id, w.channel, r.purpose, exists (select 1 from capped c where c.delivery_id = w.delivery_id), w.doubt
from work w cross join reminder r on r.id = w.reminder_id
where w.delivery_id = :id;

-- name: cap_taken
-- The latest :count that began for the same recipient, channel and purpose.
select began_at from capped
where recipient_id = :recipient and channel = :channel and purpose = :purpose and delivery_id <> :id
order by began_at desc limit :count;

-- name: cap_take
-- One that has its place keeps it.
insert into capped (delivery_id, recipient_id, channel, purpose, began_at) values (?, ?, ?, ?, db_now()) on conflict do nothing;

-- name: cap_give_back
-- ?1 delivery. Where every attempt was not sent, nothing has left, and nothing counts. An attempt that a restore has made
-- forgotten is one more.
delete from capped
where delivery_id = ?1
  and (select coalesce(w.attempts + w.restored, d.attempts) from delivery d left join work w on w.delivery_id = d.id where d.id = ?1)
      = (select count(*) from attempt_result where delivery_id = ?1 and outcome = 'not_sent');

-- name: cap_forget
delete from capped
where delivery_id in (select delivery_id from capped where began_at < :before order by began_at limit :limit);

-- name: cap_note
-- One that a cap has just put off.
insert into event (at, account_id, reminder_id, delivery_id, kind, from_state, to_state, actor, reason, evidence)
select db_now(), account_id, reminder_id, delivery_id, 'decided', 'leased', 'waiting', ?, reason, ?
from work where delivery_id = ?;
