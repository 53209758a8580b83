"""What comes in: rows are read from files and streams, checked, and become reminders or a reason.

`read` yields rows with their line numbers, `Intake.accept` checks one, `RejectedFile` sets aside what was
not taken. Hostile input is expected: every row ends as a reminder or as a `Rejection`, within bounded time
and memory.
"""

from duly.intake.addresses import normal_email, normal_phone, normal_url
from duly.intake.rejected import RejectedFile
from duly.intake.rejection import Rejection
from duly.intake.rows import FORMATS, Rows, open_rows, read
from duly.intake.single import read_single
from duly.intake.submission import Intake, KnownTemplates
from duly.intake.when import When, read_schedule
from duly.intake.zones import find as find_zone

__all__ = [
    "FORMATS",
    "Intake",
    "KnownTemplates",
    "RejectedFile",
    "Rejection",
    "Rows",
    "When",
    "find_zone",
    "normal_email",
    "normal_phone",
    "normal_url",
    "open_rows",
    "read",
    "read_schedule",
    "read_single",
]
