-- Consent: what was said about an address, what of it stands, and why an address is left alone.
--
-- `consent_event` is the history and is only added to. `consent` holds what stands: at most one entry of each kind and
-- scope. Two columns of `contact` are derived from it in the same transaction, so that a claim, which reads the
-- contact anyway, looks further only where there is something to see: `suppressed` says why nothing at all may go
-- there, `silenced` whether some purposes are silenced. Whatever changes raises the revision of what admission reads.

create table consent (
  account_id integer not null,
  contact_id blob not null,
  scope text not null,                      -- a purpose; all (but security); all+security
  kind text not null check (kind in ('opt_out', 'opt_in', 'bounce', 'complaint', 'manual')),
  code text,                                -- the reason code by which it silences; null for an opt-in
  at integer,                               -- when it was said; null: nobody knows
  source text not null,
  reason text not null,
  actor text not null,
  recorded_at integer not null,
  primary key (account_id, contact_id, scope, kind),
  check (kind not in ('bounce', 'complaint') or scope = 'all+security')) strict;

create table consent_event (
  number integer primary key,
  id blob not null unique check (length(id) = 16),  -- derived from what was said: the same again is the same row
  account_id integer not null,
  contact_id blob not null,
  scope text not null,
  kind text not null check (kind in ('opt_out', 'opt_in', 'bounce', 'complaint', 'manual', 'lift')),
  at integer,
  source text not null,
  reason text not null,
  actor text not null,
  recorded_at integer not null) strict;
create index consent_event_contact on consent_event (contact_id, number);

alter table contact add column silenced integer not null default 0 check (silenced in (0, 1));  -- for some purposes: see consent

alter table recipient add column deleted_at integer;
alter table recipient add column disabled text check (disabled is null or json_valid(disabled));  -- channels; null: none

-- What was done to an account, a recipient or a template, by whom and why. Deliveries have their own events.
create table operation (
  number integer primary key,
  at integer not null,
  account_id integer,
  recipient_id blob,
  template text,
  kind text not null,
  actor text not null,
  reason text not null) strict;
create index operation_account on operation (account_id, number);

create table paused_template (
  template text primary key not null,
  since integer not null,
  actor text not null,
  reason text not null) strict;

insert into consent (account_id, contact_id, scope, kind, code, source, reason, actor, recorded_at)
select k.account_id, k.id, 'all+security', 'manual', k.suppressed, 'before consent was kept', k.suppressed, 'migration',
       cast((julianday('now') - 2440587.5) * 86400000 as integer) * 1000
from contact k where k.suppressed is not null;
