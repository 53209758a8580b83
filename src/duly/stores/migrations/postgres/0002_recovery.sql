-- Recovery: what was looked up, who may have killed a worker, and the guard that a restored backup opens.
--
-- Doubt ends by a definite answer, or by misses that a provider's settling time has made count: then the unknown results
-- are `covered`. `restored` stands for an attempt that may have been made and that this ledger does not remember.
-- A row that was in a worker's hands when it died is a suspect: `suspicion` says in how small a company it is claimed
-- next (0: no matter; 3: alone), `deaths` how many workers died while they held it alone.

alter table work
  add column misses smallint not null default 0,       -- look-ups that found nothing, since the latest unknown attempt
  add column missed_at timestamptz,
  add column restored boolean not null default false,
  add column called_off boolean not null default false, -- cancelled by itself, while it could not end: it is not sent any more
  add column alarmed boolean not null default false,   -- held, and the alarm was raised
  add column suspicion smallint not null default 0,
  add column deaths smallint not null default 0;
drop index work_ready;
create index work_ready on work (provider, lane, account_id, next_at, delivery_id) where state = 'ready' and suspicion = 0;
create index work_suspects on work (provider, suspicion, next_at) where state = 'ready' and suspicion > 0;
create index work_held on work (next_at) where state = 'held';

alter table delivery add column called_off boolean not null default false;  -- as in work: a redrive must know it

alter table attempt_result add column covered boolean not null default false;  -- unknown, and looked up in vain often enough

alter table event add column evidence jsonb;           -- what a decision was based on

alter table installation
  add column place text,                               -- system identifier, timeline and database: what a restore changes
  add column heartbeat_at timestamptz;                 -- the last sign of life of any process

create table guard (
  number int generated always as identity primary key,
  since timestamptz not null,                -- T: what happened from here on may be missing
  opened_at timestamptz not null default clock_timestamp(),
  opened_by text not null,
  why text not null,
  closed_at timestamptz,
  closed_by text,
  closing_why text);
create unique index guard_open on guard ((closed_at is null)) where closed_at is null;  -- one at a time

create view gate as                          -- whether anything may be claimed and begun, and where this database is now
select coalesce(i.place <> h.place, false) as moved, h.place as here,
       coalesce(i.place = h.place, true) and not exists (select from guard g where g.closed_at is null) as open
from installation i
cross join (select (select system_identifier::text from pg_control_system())
                   || ':' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)
                   || ':' || (select oid::text from pg_database where datname = current_database()) as place) h;
