-- Consent: what was said about an address, what of it stands, and why an address is left alone.
--
-- `consent_event` is the history and is only added to. `consent` holds what stands: at most one entry of each kind and
-- scope. Two columns of `contact` are derived from it in the same transaction, so that a claim, which reads the
-- contact anyway, looks further only where there is something to see: `suppressed` says why nothing at all may go
-- there, `silenced` whether some purposes are silenced. Whatever changes raises the revision of what admission reads.

create table consent (
  account_id int not null,
  contact_id uuid not null,
  scope text not null,                       -- a purpose; all (but security); all+security
  kind text not null check (kind in ('opt_out', 'opt_in', 'bounce', 'complaint', 'manual')),
  code text,                                 -- the reason code by which it silences; null for an opt-in
  at timestamptz,                            -- when it was said; null: nobody knows
  source text not null,
  reason text not null,
  actor text not null,
  recorded_at timestamptz not null default clock_timestamp(),
  primary key (account_id, contact_id, scope, kind),
  check (kind not in ('bounce', 'complaint') or scope = 'all+security'));

create table consent_event (
  number bigint generated always as identity primary key,
  id uuid not null unique,                   -- derived from what was said: the same again is the same row
  account_id int not null,
  contact_id uuid not null,
  scope text not null,
  kind text not null check (kind in ('opt_out', 'opt_in', 'bounce', 'complaint', 'manual', 'lift')),
  at timestamptz,
  source text not null,
  reason text not null,
  actor text not null,
  recorded_at timestamptz not null default clock_timestamp());
create index consent_event_contact on consent_event (contact_id, number);

alter table contact add column silenced boolean not null default false;  -- for some purposes: see consent

alter table recipient
  add column deleted_at timestamptz,
  add column disabled text[];                -- channels; null: none

-- What was done to an account, a recipient or a template, by whom and why. Deliveries have their own events.
create table operation (
  number bigint generated always as identity primary key,
  at timestamptz not null default clock_timestamp(),
  account_id int,
  recipient_id uuid,
  template text,
  kind text not null,
  actor text not null,
  reason text not null);
create index operation_account on operation (account_id, number);

create table paused_template (
  template text primary key,
  since timestamptz not null default clock_timestamp(),
  actor text not null,
  reason text not null);

insert into consent (account_id, contact_id, scope, kind, code, source, reason, actor)
select k.account_id, k.id, 'all+security', 'manual', k.suppressed, 'before consent was kept', k.suppressed, 'migration'
from contact k where k.suppressed is not null;
