-- Migrate: what the database remembers of its migrations, and what is there. The migrations are in stores/migrations.

-- name: migration_lock
-- Those who apply at the same time wait here. It ends with the transaction, also behind a transaction pooler.
select pg_advisory_xact_lock(x'44554c59'::bigint);

-- name: migration_table
create table if not exists duly_migration (
  number int primary key,
  name text not null,
  checksum text not null,
  applied_at timestamptz not null default now(),
  applied_by text not null);

-- name: migration_table_seen
select to_regclass('duly_migration') is not null;

-- name: migrations_applied
select number, name, checksum from duly_migration order by number;

-- name: migration_add
insert into duly_migration (number, name, checksum, applied_by) values ($1, $2, $3, $4);

-- name: namespace_add
insert into installation (namespace) values ($1) on conflict do nothing;

-- name: describe
-- $1: of the session's temporary schema, else of the current one. One line per table, column, index, constraint and
-- view, as (kind and name, definition). Definitions name no schema, so that both can be compared.
with r as (
  select c.oid, c.relname, c.relkind, c.reloptions
  from pg_class c
  where c.relnamespace = case when $1::bool then pg_my_temp_schema() else current_schema()::regnamespace end
    and c.relkind in ('r', 'v'))
select 'column ' || r.relname || '.' || a.attname,
       format_type(a.atttypid, a.atttypmod) || case when a.attnotnull then ' not null' else '' end
       || case when a.attidentity <> '' then ' identity' else '' end
       || coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '')
from r join pg_attribute a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
left join pg_attrdef d on d.adrelid = r.oid and d.adnum = a.attnum
union all
select 'index ' || r.relname || '.' || n.relname, regexp_replace(pg_get_indexdef(i.indexrelid), ' ON [^ ]+\.', ' ON ')
from r join pg_index i on i.indrelid = r.oid join pg_class n on n.oid = i.indexrelid
union all
select 'constraint ' || r.relname || '.' || k.conname, pg_get_constraintdef(k.oid)
from r join pg_constraint k on k.conrelid = r.oid
where k.contype <> 'n'
union all
select case r.relkind when 'v' then 'view ' else 'table ' end || r.relname,
       case r.relkind when 'v' then pg_get_viewdef(r.oid) else coalesce(array_to_string(r.reloptions, ', '), '') end
from r;
