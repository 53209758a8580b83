-- The ledger: what was asked for, what became of it, and the proof.
--
-- `delivery` is permanent: it is the memory that stops duplicates, and is written twice, when the tick makes it and
-- when it becomes final. `work` is narrow and hot: it holds open deliveries only. `attempt`, `attempt_result` and
-- `frozen` are append-only. There are no foreign keys: rows are dropped by age, and ids are derived.
-- A delivery's state while it is open stands in `work`; the view `ledger` puts the two together.

create table installation (
  only_row boolean primary key default true check (only_row),
  namespace text not null,
  created_at timestamptz not null default now());

create table account (
  id int generated always as identity primary key,
  name text not null unique,
  revision int not null default 1,
  paused boolean not null default false,
  created_at timestamptz not null default now());

create table recipient (
  id uuid primary key,
  account_id int not null,
  ref text not null,
  revision int not null default 1,
  name text, zone text, locale text,
  addresses jsonb not null default '{}',
  unique (account_id, ref));

create table contact (
  id uuid primary key,
  account_id int not null,
  channel text not null,
  address text not null,
  endpoint uuid not null,
  revision int not null default 1,
  suppressed text);

create table reminder (
  id uuid primary key,
  account_id int not null,
  caller_key text not null,
  body_hash bytea not null,
  recipient_id uuid not null,
  inline boolean not null,
  addresses jsonb not null default '{}',     -- normalised inline addresses by channel; empty where "to" is an id alone
  channels text[] not null,
  template text not null,
  data jsonb not null,
  "to" jsonb not null,
  notify_at text not null,
  zone text,
  deadline text,
  deadline_at timestamptz not null,
  late text not null,
  lane text not null,
  purpose text not null,
  event_version int,
  status text not null default 'active' check (status in ('active', 'paused', 'cancelled', 'done')),
  revision int not null default 1,
  next_due_at timestamptz,
  created_at timestamptz not null default now(),
  unique (account_id, caller_key)) with (fillfactor = 90);
create index reminder_due on reminder (next_due_at) where next_due_at is not null;

create table delivery (
  id uuid primary key,
  account_id int not null,
  reminder_id uuid not null,
  recipient_id uuid not null,
  contact_id uuid not null,
  endpoint uuid not null,
  occurrence text not null,
  channel text not null,
  provider text not null,
  lane text not null,
  due_at timestamptz not null,
  deadline_at timestamptz not null,
  created_at timestamptz not null default now(),
  status text check (status in ('sent', 'rejected', 'dead', 'expired', 'suppressed', 'cancelled', 'shadowed', 'skipped', 'unconfirmed')),
  reason text,
  attempts smallint not null default 0,
  request_id text,
  receipt_state text,
  finished_at timestamptz,
  unique (account_id, reminder_id, occurrence, channel)) with (fillfactor = 80);
create index delivery_created on delivery (created_at desc, id);

create table work (
  delivery_id uuid primary key,
  account_id int not null,
  provider text not null,
  lane text not null,
  state text not null default 'ready' check (state in ('ready', 'leased', 'waiting', 'uncertain', 'held', 'folded')),
  begun boolean not null default false,      -- apart from state, so that begin touches no indexed column
  fence int not null default 0,
  attempts smallint not null default 0,
  spared smallint not null default 0,        -- attempts that do not count towards exhaustion (auth, config)
  doubt boolean not null default false,
  closed boolean not null default false,     -- in doubt, and the rungs that send are closed
  granted boolean not null default false,    -- one resend outside the key window was granted
  first_unknown_at timestamptz,
  reason text,
  since timestamptz not null default now(),  -- when the row came into this state
  next_at timestamptz not null,
  due_at timestamptz not null,
  deadline_at timestamptz not null,
  lease_until timestamptz,
  worker text,
  occurrence text not null,
  channel text not null,
  reminder_id uuid not null,
  recipient_id uuid not null,
  contact_id uuid not null,
  endpoint uuid not null) with (fillfactor = 70);
create index work_ready on work (provider, lane, account_id, next_at, delivery_id) where state = 'ready';
create index work_leased on work (delivery_id) where state = 'leased';
create index work_next on work (next_at) where state in ('waiting', 'uncertain');
create index work_expiry on work (deadline_at) where state in ('ready', 'waiting');
create index work_waiting on work (provider, endpoint) where state = 'waiting';
alter table work set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

create table attempt (
  delivery_id uuid not null,
  number smallint not null,
  fence int not null,
  started_at timestamptz not null,
  worker text not null,
  provider text not null,
  payload_hash bytea not null,
  primary key (delivery_id, number));

create table attempt_result (
  delivery_id uuid not null,
  number smallint not null,
  finished_at timestamptz not null,
  outcome text not null check (outcome in ('accepted', 'rejected', 'refused', 'not_sent', 'unknown')),
  class text,
  http_status smallint,
  request_id text,
  retry_after real,
  excerpt text,
  detail text,
  stale boolean not null,
  primary key (delivery_id, number));

create table frozen (
  delivery_id uuid not null,
  number smallint not null,                  -- the attempt that rendered these bytes; later ones repeat them
  destination text not null,
  body bytea not null,
  template text not null,
  template_version text not null,
  reminder_revision int not null,
  recipient_revision int not null,
  contact_revision int not null,
  primary key (delivery_id, number));

create table event (
  id bigint generated always as identity primary key,
  at timestamptz not null default clock_timestamp(),
  account_id int not null,
  reminder_id uuid not null,
  delivery_id uuid,
  kind text not null,
  from_state text,
  to_state text,
  actor text not null,
  reason text not null);
create index event_reminder on event (reminder_id, id);

create table budget (
  provider text not null,
  endpoint uuid not null,
  tokens double precision not null default 0,
  rate double precision,
  updated_at timestamptz not null default clock_timestamp(),
  blocked_until timestamptz,
  block_reason text,
  circuit boolean not null default false,    -- opened by auth or config; after blocked_until one delivery probes it
  failures int not null default 0,           -- in a row; lengthens the interval of the circuit
  primary key (provider, endpoint));

create view ledger as
select d.id, d.account_id, d.reminder_id, d.recipient_id, d.contact_id, d.endpoint, d.occurrence, d.channel, d.provider, d.lane,
       d.due_at, d.deadline_at, d.created_at, d.request_id, d.receipt_state, d.finished_at,
       coalesce(d.status, case when w.state = 'leased' and w.begun then 'sending' else w.state end) as status,
       coalesce(d.reason, w.reason) as reason,
       coalesce(w.attempts, d.attempts) as attempts,
       w.next_at, w.lease_until, w.doubt, w.closed, w.first_unknown_at, w.since, w.worker, w.fence
from delivery d left join work w on w.delivery_id = d.id;
