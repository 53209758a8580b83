-- Migrate: what the database remembers of its migrations, and what is there. The migrations are in stores/migrations.

-- name: migration_table
create table if not exists duly_migration (
  number integer primary key,
  name text not null,
  checksum text not null,
  applied_at integer not null default (cast((julianday('now') - 2440587.5) * 86400000 as integer) * 1000),
  applied_by text not null) strict;

-- name: migration_table_seen
select exists (select 1 from sqlite_schema where type = 'table' and name = 'duly_migration');

-- name: migrations_applied
select number, name, checksum from duly_migration order by number;

-- name: migration_add
insert into duly_migration (number, name, checksum, applied_by) values (:number, :name, :checksum, :by);

-- name: namespace_add
insert into installation (only_row, namespace) values (1, :namespace) on conflict do nothing;

-- name: describe
-- One line per table, column, index and view, as (kind and name, definition).
select 'column ' || t.name || '.' || c.name,
       c.type || case when c."notnull" then ' not null' else '' end || coalesce(' default ' || c.dflt_value, '')
from sqlite_schema t join pragma_table_xinfo(t.name) c
where t.type = 'table' and t.name not like 'sqlite_%'
union all
select 'index ' || t.name || '.' || i.name, coalesce(s.sql, (select group_concat(k.name) from pragma_index_info(i.name) k))
from sqlite_schema t join pragma_index_list(t.name) i left join sqlite_schema s on s.type = 'index' and s.name = i.name
where t.type = 'table' and t.name not like 'sqlite_%'
union all
select type || ' ' || name, sql from sqlite_schema where type in ('table', 'view') and name not like 'sqlite_%';
