-- The ledger: what was asked for, what became of it, and the proof.
--
-- `delivery` is permanent: it is the memory that stops duplicates, and is written twice, when the tick makes it and
-- when it becomes final. `work` is narrow and hot: it holds open deliveries only. `attempt`, `attempt_result` and
-- `frozen` are append-only. There are no foreign keys: rows are dropped by age, and ids are derived.
-- A delivery's state while it is open stands in `work`; the view `ledger` puts the two together.
--
-- Here, ids are 16-byte blobs, times are integer microseconds since 1970-01-01T00:00:00Z, booleans are 0 and 1, and
-- JSON is text. Times have no default: every one comes from `db_now()` of the connection that writes it, and a
-- statement that forgets one is refused. Tables keep their rowid: derived ids are spread evenly, and rows that are
-- stored in order of arrival stay together on the pages that a batch touches.

create table installation (
  only_row integer primary key default 1 check (only_row = 1),
  namespace text not null,
  created_at integer not null default (cast((julianday('now') - 2440587.5) * 86400000 as integer) * 1000)) strict;

create table account (
  id integer primary key,
  name text not null unique,
  revision integer not null default 1,
  paused integer not null default 0 check (paused in (0, 1)),
  created_at integer not null) strict;

create table recipient (
  id blob primary key not null check (length(id) = 16),
  account_id integer not null,
  ref text not null,
  revision integer not null default 1,
  name text, zone text, locale text,
  addresses text not null default '{}' check (json_valid(addresses)),
  unique (account_id, ref)) strict;

create table contact (
  id blob primary key not null check (length(id) = 16),
  account_id integer not null,
  channel text not null,
  address text not null,
  endpoint blob not null,
  revision integer not null default 1,
  suppressed text) strict;

create table reminder (
  id blob primary key not null check (length(id) = 16),
  account_id integer not null,
  caller_key text not null,
  body_hash blob not null,
  recipient_id blob not null,
  inline integer not null check (inline in (0, 1)),
  addresses text not null default '{}' check (json_valid(addresses)),  -- normalised inline addresses by channel; empty where "to" is an id alone
  channels text not null check (json_valid(channels)),
  template text not null,
  data text not null check (json_valid(data)),
  "to" text not null check (json_valid("to")),
  notify_at text not null,
  zone text,
  deadline text,
  deadline_at integer not null,
  late text not null,
  lane text not null,
  purpose text not null,
  event_version integer,
  status text not null default 'active' check (status in ('active', 'paused', 'cancelled', 'done')),
  revision integer not null default 1,
  next_due_at integer,
  created_at integer not null,
  unique (account_id, caller_key)) strict;
create index reminder_due on reminder (next_due_at) where next_due_at is not null;

create table delivery (
  id blob primary key not null check (length(id) = 16),
  account_id integer not null,
  reminder_id blob not null,
  recipient_id blob not null,
  contact_id blob not null,
  endpoint blob not null,
  occurrence text not null,
  channel text not null,
  provider text not null,
  lane text not null,
  due_at integer not null,
  deadline_at integer not null,
  created_at integer not null,
  status text check (status in ('sent', 'rejected', 'dead', 'expired', 'suppressed', 'cancelled', 'shadowed', 'skipped', 'unconfirmed')),
  reason text,
  attempts integer not null default 0,
  request_id text,
  receipt_state text,
  finished_at integer,
  unique (account_id, reminder_id, occurrence, channel)) strict;
-- Newest first is the order of arrival from its end: there is no index for it.

create table work (
  delivery_id blob primary key not null check (length(delivery_id) = 16),
  account_id integer not null,
  provider text not null,
  lane text not null,
  state text not null default 'ready' check (state in ('ready', 'leased', 'waiting', 'uncertain', 'held', 'folded')),
  begun integer not null default 0 check (begun in (0, 1)),      -- apart from state, so that begin touches no index
  fence integer not null default 0,
  attempts integer not null default 0,
  spared integer not null default 0,        -- attempts that do not count towards exhaustion (auth, config)
  doubt integer not null default 0 check (doubt in (0, 1)),
  closed integer not null default 0 check (closed in (0, 1)),    -- in doubt, and the rungs that send are closed
  granted integer not null default 0 check (granted in (0, 1)),  -- one resend outside the key window was granted
  first_unknown_at integer,
  reason text,
  since integer not null,                   -- when the row came into this state
  next_at integer not null,
  due_at integer not null,
  deadline_at integer not null,
  lease_until integer,
  worker text,
  occurrence text not null,
  channel text not null,
  reminder_id blob not null,
  recipient_id blob not null,
  contact_id blob not null,
  endpoint blob not null) strict;
create index work_ready on work (provider, lane, account_id, next_at) where state = 'ready';  -- and rowid: order of arrival
create index work_leased on work (lease_until) where state = 'leased';
create index work_next on work (next_at) where state in ('waiting', 'uncertain');
create index work_expiry on work (deadline_at) where state in ('ready', 'waiting');
create index work_waiting on work (provider, endpoint) where state = 'waiting';

create table attempt (
  delivery_id blob not null,
  number integer not null,
  fence integer not null,
  started_at integer not null,
  worker text not null,
  provider text not null,
  payload_hash blob not null,
  primary key (delivery_id, number)) strict;

create table attempt_result (
  delivery_id blob not null,
  number integer not null,
  finished_at integer not null,
  outcome text not null check (outcome in ('accepted', 'rejected', 'refused', 'not_sent', 'unknown')),
  class text,
  http_status integer,
  request_id text,
  retry_after real,
  excerpt text,
  detail text,
  stale integer not null check (stale in (0, 1)),
  primary key (delivery_id, number)) strict;

create table frozen (
  delivery_id blob not null,
  number integer not null,                  -- the attempt that rendered these bytes; later ones repeat them
  destination text not null,
  body blob not null,
  template text not null,
  template_version text not null,
  reminder_revision integer not null,
  recipient_revision integer not null,
  contact_revision integer not null,
  primary key (delivery_id, number)) strict;

create table event (
  id integer primary key,
  at integer not null,
  account_id integer not null,
  reminder_id blob not null,
  delivery_id blob,
  kind text not null,
  from_state text,
  to_state text,
  actor text not null,
  reason text not null) strict;
create index event_reminder on event (reminder_id, id);

create table budget (
  provider text not null,
  endpoint blob not null,
  tokens real not null default 0,
  rate real,
  updated_at integer not null,
  blocked_until integer,
  block_reason text,
  circuit integer not null default 0 check (circuit in (0, 1)),  -- opened by auth or config; after blocked_until one delivery probes it
  failures integer not null default 0,      -- in a row; lengthens the interval of the circuit
  primary key (provider, endpoint)) strict;

create view ledger as
select d.id, d.account_id, d.reminder_id, d.recipient_id, d.contact_id, d.endpoint, d.occurrence, d.channel, d.provider, d.lane,
       d.due_at, d.deadline_at, d.created_at, d.request_id, d.receipt_state, d.finished_at,
       coalesce(d.status, case when w.state = 'leased' and w.begun then 'sending' else w.state end) as status,
       coalesce(d.reason, w.reason) as reason,
       coalesce(w.attempts, d.attempts) as attempts,
       w.next_at, w.lease_until, w.doubt, w.closed, w.first_unknown_at, w.since, w.worker, w.fence
from delivery d left join work w on w.delivery_id = d.id;
