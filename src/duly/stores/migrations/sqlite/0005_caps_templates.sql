-- Caps: what began under a frequency cap. Templates: by which version of its template a reminder was promised.
--
-- A delivery under a cap has a row in `capped` from its first begin on, written in the transaction of that begin, so
-- that a count under the writer's turn is exact. It goes when it turns out that nothing of the delivery ever left,
-- or when no cap looks back so far any more. Deliveries without a cap leave nothing here.

create table capped (
  delivery_id blob primary key not null check (length(delivery_id) = 16),
  recipient_id blob not null,
  channel text not null,
  purpose text not null,
  began_at integer not null) strict, without rowid;
create index capped_recipient on capped (recipient_id, channel, purpose, began_at);
create index capped_began on capped (began_at);

create table template (                     -- the sources of versions that reminders are pinned to
  name text not null,
  version text not null,
  subject text not null,
  text text not null,
  html text,
  sms_segments_max integer not null,
  sms_to_gsm integer not null check (sms_to_gsm in (0, 1)),
  created_at integer not null,
  primary key (name, version)) strict;

alter table reminder add column template_version text;  -- the one that was current when it was scheduled; null: whichever is current
