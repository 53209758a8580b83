-- Summaries: late deliveries of one recipient that come as one message.
--
-- A summary is a delivery of its own, of a reminder that nobody submitted. What is folded into it is open, and waits
-- for it. When the summary has ended, upkeep lets its end be theirs, and writes that it did: `shared_as`. Acceptance
-- evidence that overturns an end makes it look once more.

alter table delivery
  add column summarizes boolean not null default false,  -- it is a summary
  add column shared_as text,                             -- the end of a summary that its folded deliveries have shared
  add column summary_id uuid;                            -- the summary that it was folded into, the last one; null: none
create index delivery_ended_summary on delivery (id) where summarizes and status is not null and status is distinct from shared_as;
create index delivery_summary on delivery (summary_id) where summary_id is not null;

alter table work
  add column folds int not null default 0,               -- how often it was folded
  add column returned smallint not null default 0,       -- of these, how often the summary came to nothing
  add column gathering text;                             -- of a summary that still takes something up: what of; null: it is full, or in doubt
create unique index work_gathering on work (account_id, recipient_id, contact_id, provider, gathering) where gathering is not null;
