-- Own: what a reminder says of its recipient where he is known otherwise. What it says as it is known is his, and changes
-- with him.

alter table reminder add column own jsonb;  -- name, zone, locale; null: nothing
