-- Caps: the number is taken.
select 1;
