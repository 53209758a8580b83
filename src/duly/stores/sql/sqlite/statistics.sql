-- Statistics: what ANALYZE leaves behind. The statements' plans follow from the indexes; statistics of a table that held
-- one row when they were gathered would have it read from end to end when it holds a million. So they are forgotten when
-- a ledger is opened.

-- name: statistics_there
select exists (select 1 from sqlite_schema where name = 'sqlite_stat1');

-- name: statistics_drop
drop table if exists sqlite_stat1;

-- name: statistics_drop_samples
drop table if exists sqlite_stat4;
