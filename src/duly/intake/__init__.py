"""What comes in: rows are read from files and streams, checked, and become reminders or a reason.

`read` yields rows with their line numbers, `Intake.accept` checks one (`ConsentIntake` and `RecipientIntake` those of
other tables), `RejectedFile` sets aside what was not taken. Hostile input is expected: every row ends as what it is
meant to be or as a `Rejection`, within bounded time and memory.
"""

from duly.intake.addresses import normal_url
from duly.intake.consent import CONSENT_TABLE, ConsentIntake, read_purpose
from duly.intake.contacts import NORMALISE, contact_of
from duly.intake.purposes import Purposes
from duly.intake.recipients import RECIPIENT_TABLE, RecipientIntake
from duly.intake.rejected import RejectedFile
from duly.intake.rejection import Rejection
from duly.intake.rows import FORMATS, Rows, open_rows, read
from duly.intake.single import read_single
from duly.intake.submission import Intake, KnownTemplates, RecipientZones
from duly.intake.when import When, read_schedule
from duly.intake.zones import find as find_zone

__all__ = [
    "CONSENT_TABLE",
    "FORMATS",
    "NORMALISE",
    "RECIPIENT_TABLE",
    "ConsentIntake",
    "Intake",
    "KnownTemplates",
    "Purposes",
    "RecipientIntake",
    "RecipientZones",
    "RejectedFile",
    "Rejection",
    "Rows",
    "When",
    "contact_of",
    "find_zone",
    "normal_url",
    "open_rows",
    "read",
    "read_purpose",
    "read_schedule",
    "read_single",
]
