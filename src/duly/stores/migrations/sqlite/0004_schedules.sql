-- Schedules: what repeats or counts from an anchor, and which occurrence is next.
--
-- A reminder that fires once needs none of this: its moment stands in `notify_at`, `zone` and `next_due_at`. What moves
-- a schedule on moves these together: `next_due_at`, `next_label` and the next occurrence's deadline.

alter table reminder add column schedule text check (schedule is null or json_valid(schedule));  -- null: fires once, at notify_at
alter table reminder add column next_label text;         -- the next occurrence's; null: once
alter table reminder add column follows_recipient integer not null default 0 check (follows_recipient in (0, 1));  -- local times are read in the recipient's zone
alter table reminder add column zone_data text;          -- the version of the zone data by which next_due_at was told; null: it is an instant
alter table reminder add column missed text;             -- what becomes of occurrences that no tick saw in time: latest, skip, all:5
alter table reminder add column grace text;              -- for how long a missed occurrence is still of use
alter table recipient add column quiet_hours text check (quiet_hours is null or json_valid(quiet_hours));  -- his own, beside his account's; null: none
alter table reminder add column quiet_hours text check (quiet_hours is null or json_valid(quiet_hours));  -- that came with it, for this reminder; null: its recipient's
create index reminder_zoned on reminder (id) where zone_data is not null and next_due_at is not null;
alter table reminder add column late_until text;        -- with late = send_marked: how long a late one is still sent, as submitted
alter table reminder add column generation integer not null default 1;  -- of its occurrences: a revised reminder's come under new labels
alter table reminder add column group_key text;
create index reminder_group on reminder (account_id, group_key) where group_key is not null;
