-- Schedules: what repeats or counts from an anchor, and which occurrence is next.
--
-- A reminder that fires once needs none of this: its moment stands in `notify_at`, `zone` and `next_due_at`. What moves
-- a schedule on moves these together: `next_due_at`, `next_label` and the next occurrence's deadline.

alter table reminder
  add column schedule text,                            -- JSON; null: fires once, at notify_at
  add column next_label text,                          -- the next occurrence's; null: once
  add column follows_recipient boolean not null default false,  -- local times are read in the recipient's zone
  add column zone_data text,                           -- the version of the zone data by which next_due_at was told; null: it is an instant
  add column missed text,                              -- what becomes of occurrences that no tick saw in time: latest, skip, all:5
  add column grace text,                               -- for how long a missed occurrence is still of use
  add column late_until text,                          -- with late = send_marked: how long a late one is still sent, as submitted
  add column generation int not null default 1,        -- of its occurrences: a revised reminder's come under new labels
  add column group_key text;
alter table reminder add column quiet_hours jsonb;     -- that came with it, for this reminder; null: its recipient's
alter table recipient add column quiet_hours jsonb;    -- his own, beside his account's; null: none
drop index reminder_due;
create index reminder_due on reminder (next_due_at, id) where next_due_at is not null;  -- in the order in which a tick reads
create index reminder_zoned on reminder (id) where zone_data is not null and next_due_at is not null;
create index reminder_group on reminder (account_id, group_key) where group_key is not null;
