"""What the receiver does with a message that comes to a URL, as data. `receiver` explains it.

A mood has an answer for every time that a message comes; the last one stays. `mood_of` also reads a plan: moods
joined by dashes, of which each gives the answer with which it begins. `busy-lost-ok` refuses a message, then takes
it without a word, then answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from duly.testing.http1 import Answer, Manner, reply

__all__ = ["DENIED", "MOODS", "NOT_ALLOWED", "NO_MOOD", "OK", "Mood", "mood_of"]

PLANNED_ANSWERS_MAX: Final = 100


class Mood(NamedTuple):
    """The answers for a message that comes for the first time, the second, and so on."""

    answers: tuple[Answer, ...]

    def at(self, visits: int) -> Answer:
        """What a message gets that has come so often before."""
        return self.answers[min(visits, len(self.answers) - 1)]


OK: Final = Answer(Manner.AT_ONCE, reply("200 OK", b"ok"), accepts=True)
SLOW: Final = OK._replace(manner=Manner.AFTER_A_WHILE)
SILENT: Final = Answer(Manner.NEVER)
LOST: Final = Answer(Manner.NEVER, accepts=True)
RESET: Final = Answer(Manner.CUT)
DROPPED: Final = Answer(Manner.CUT, accepts=True)
GONE: Final = Answer(Manner.AT_ONCE, reply("410 Gone", b"no more, please"))
BUSY: Final = Answer(Manner.AT_ONCE, reply("429 Too Many Requests", b"later, please", "Retry-After: 1"))
CLOSED: Final = Answer(Manner.AT_ONCE, reply("503 Service Unavailable", b"closed for a moment", "Retry-After: 1"))
DOWN: Final = Answer(Manner.AT_ONCE, reply("503 Service Unavailable", b"down"))
BROKEN: Final = Answer(Manner.AT_ONCE, reply("500 Internal Server Error", b"broken"), accepts=True)
DENIED: Final = Answer(Manner.AT_ONCE, reply("401 Unauthorized", b"who are you?"))
MOVED: Final = Answer(Manner.AT_ONCE, reply("302 Found", b"", "Location: /ok/moved"))
NO_MOOD: Final = Answer(Manner.AT_ONCE, reply("404 Not Found", b"no such mood"))
NOT_ALLOWED: Final = Answer(Manner.AT_ONCE, reply("405 Method Not Allowed", b"POST only", "Allow: GET, POST"))

MOODS: Final[Mapping[str, Mood]] = {
    "ok": Mood((OK,)),
    "gone": Mood((GONE,)),
    "busy": Mood((BUSY, OK)),
    "closed": Mood((CLOSED, OK)),
    "down": Mood((DOWN, OK)),  # it was not accepted, and nobody can tell
    "broken": Mood((BROKEN, OK)),  # this one was accepted
    "reset": Mood((RESET, OK)),  # the request has been read, and was not accepted
    "dropped": Mood((DROPPED, OK)),  # this one was, before the reset
    "silent": Mood((SILENT, OK)),  # it was not accepted
    "lost": Mood((LOST, OK)),  # this one was
    "denied": Mood((DENIED,)),  # until `mend`
    "slow": Mood((SLOW,)),
    "redirect": Mood((MOVED,)),
}


def mood_of(name: str) -> Mood | None:
    """The mood of that name, or the plan that joins such names by dashes; None if it is neither."""
    if name in MOODS:
        return MOODS[name]
    steps = name.split("-", PLANNED_ANSWERS_MAX)
    if not all(step in MOODS for step in steps):
        return None
    return Mood(tuple(MOODS[step].at(0) for step in steps))
