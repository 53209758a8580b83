-- Chosen: the quiet hours and caps of the configuration, as a hash, with which what waits for them was last looked at.

alter table installation add column chosen text;
