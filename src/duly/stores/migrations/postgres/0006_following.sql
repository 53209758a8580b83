-- Following: the reminders whose local times are read in their recipient's zone, found by the recipient when he moves.

create index reminder_following on reminder (recipient_id) where follows_recipient and next_due_at is not null;
