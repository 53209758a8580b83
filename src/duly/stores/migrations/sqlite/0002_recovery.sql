-- Recovery: what was looked up, who may have killed a worker, and the guard that a restored backup opens.
--
-- Doubt ends by a definite answer, or by misses that a provider's settling time has made count: then the unknown results
-- are `covered`. `restored` stands for an attempt that may have been made and that this ledger does not remember.
-- A row that was in a worker's hands when it died is a suspect: `suspicion` says in how small a company it is claimed
-- next (0: no matter; 3: alone), `deaths` how many workers died while they held it alone.

alter table work add column misses integer not null default 0;       -- look-ups that found nothing, since the latest unknown attempt
alter table work add column missed_at integer;
alter table work add column restored integer not null default 0 check (restored in (0, 1));
alter table work add column called_off integer not null default 0 check (called_off in (0, 1));  -- cancelled by itself, while it could not end: it is not sent any more
alter table work add column alarmed integer not null default 0 check (alarmed in (0, 1));  -- held, and the alarm was raised
alter table work add column suspicion integer not null default 0;
alter table work add column deaths integer not null default 0;
drop index work_ready;
create index work_ready on work (provider, lane, account_id, next_at) where state = 'ready' and suspicion = 0;  -- and rowid: order of arrival
create index work_suspects on work (provider, suspicion, next_at) where state = 'ready' and suspicion <> 0;  -- not >, which would be sought by instead
create index work_held on work (next_at) where state = 'held';

alter table delivery add column called_off integer not null default 0 check (called_off in (0, 1));  -- as in work: a redrive must know it

alter table attempt_result add column covered integer not null default 0 check (covered in (0, 1));  -- unknown, and looked up in vain often enough

alter table event add column evidence text check (evidence is null or json_valid(evidence));  -- what a decision was based on

alter table installation add column place text;             -- what a restore changes, where it can be told
alter table installation add column heartbeat_at integer;   -- the last sign of life of any process

create table guard (
  number integer primary key,
  since integer not null,                   -- T: what happened from here on may be missing
  opened_at integer not null,
  opened_by text not null,
  why text not null,
  closed_at integer,
  closed_by text,
  closing_why text) strict;
create unique index guard_open on guard ((closed_at is null)) where closed_at is null;  -- one at a time
