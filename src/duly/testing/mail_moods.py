"""What the mail sink does to whom, as data. `mail_sink` explains it in a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

__all__ = ["CUT", "MOODS", "SILENCE", "Mood"]

#: In place of a reply: none at all, or the end of the connection.
SILENCE: Final = ""
CUT: Final = "(cut)"


class Mood(NamedTuple):
    """What happens to the mail of some recipients. `reply` may be SILENCE or CUT."""

    at: Literal["rcpt", "data", "dot"]
    reply: str = "250 2.0.0 Ok"
    accepts: bool = False  # at the dot: the message is kept, whatever is replied
    once: bool = False  # for each recipient; later it is treated like everybody else
    slow: bool = False


#: how a local part begins -> the mood
MOODS: Final[Mapping[str, Mood]] = {
    "gone": Mood("rcpt", "550 5.1.1 no such mailbox here"),
    "full": Mood("rcpt", "552 5.2.2 mailbox full"),
    "busy": Mood("rcpt", "451 4.3.2 busy, try again later", once=True),
    "closes421": Mood("data", "421 4.3.2 closing for maintenance"),
    "spam": Mood("dot", "554 5.7.1 message refused as spam"),
    "slow": Mood("dot", accepts=True, slow=True),
    "dropped": Mood("dot", CUT, accepts=True),
    "silent": Mood("dot", SILENCE, accepts=True),
}
