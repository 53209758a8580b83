"""A recurrence set of RFC 5545 (3.8.5): a rule, dates added to it (RDATE) and taken out of it (EXDATE).

Written as one line, `FREQ=...` or `RRULE:...`, or as several: at most one RRULE, and any number of RDATE and
EXDATE. The reminder's own time is their DTSTART. It is a firing only where the rule matches it; the RFC counts
it as the first one always (3.8.5.3) and calls a rule that does not match it undefined.

The set's text has one form: the rule first, then one RDATE and one EXDATE line, their times in order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from typing import Final, NamedTuple

from duly.core.schedule.rules import Rule, parse_moment, parse_rule, read_rule, write_moment

__all__ = ["RuleSet", "is_set", "parse_set", "read_set"]

SET_CHARACTERS_MAX: Final = 4_000
SET_LINES_MAX: Final = 10
SETS_CACHED_MAX: Final = 4_096

_LINE: Final = re.compile(r"(RRULE|RDATE|EXDATE)(?:;VALUE=DATE-TIME)?:(.*)")
_OTHER_LINES: Final = {
    "DTSTART": "DTSTART is the reminder's own time (notify_at); leave it out",
    "EXRULE": "EXRULE was taken out of the standard; write EXDATE lines",
}


class RuleSet(NamedTuple):
    """A set, read. Times are naive (wall time) or aware (instants), in order."""

    rule: Rule | None
    added: tuple[datetime, ...]
    without: tuple[datetime, ...]


def is_set(text: str) -> bool:
    """Whether a text means to be a recurrence set, and not a cron expression."""
    return "=" in text or ":" in text


def read_set(text: str) -> str:
    """A set in its canonical text. Raises ValueError, which says what to write."""
    if len(text) > SET_CHARACTERS_MAX:
        raise ValueError(f"it is longer than {SET_CHARACTERS_MAX:,} characters; shorten it")
    lines = [line.strip() for line in text.upper().splitlines() if line.strip()]
    if len(lines) > SET_LINES_MAX:
        raise ValueError(f"it has more than {SET_LINES_MAX} lines; write the dates of several on one, with commas")
    found: dict[str, list[str]] = {"RRULE": [], "RDATE": [], "EXDATE": []}
    for line in lines:
        name, value = _line(line)
        found[name].append(value)
    return "\n".join(_canonical(found))


@lru_cache(SETS_CACHED_MAX)
def parse_set(text: str) -> RuleSet:
    """A set from its canonical text."""
    lines = dict(line.split(":", 1) for line in text.splitlines())
    rule = lines.get("RRULE")
    return RuleSet(parse_rule(rule) if rule else None, _times(lines.get("RDATE")), _times(lines.get("EXDATE")))


def _canonical(found: dict[str, list[str]]) -> Iterable[str]:
    if len(found["RRULE"]) > 1:
        raise ValueError("it has several rules; write one RRULE, and a reminder for each of the others")
    if not found["RRULE"] and not found["RDATE"]:
        raise ValueError("it has no rule; write one like FREQ=WEEKLY;BYDAY=MO")
    for rule in found["RRULE"]:
        yield f"RRULE:{read_rule(rule)}"
    for name in ("RDATE", "EXDATE"):
        times = {parse_moment(word, name) for value in found[name] for word in value.split(",")}
        if times:
            yield f"{name}:{','.join(sorted(map(write_moment, times)))}"


def _line(line: str) -> tuple[str, str]:
    matched = _LINE.fullmatch(line)
    if matched:
        return matched[1], matched[2]
    if line.startswith("FREQ="):
        return "RRULE", line
    name = re.split("[:;=]", line, maxsplit=1)[0]
    if name in ("RDATE", "EXDATE"):
        raise ValueError(f"{name} takes times of the reminder's zone or of UTC, like {name}:20261201T090000")
    raise ValueError(_OTHER_LINES.get(name, "a line is no rule; write RRULE:FREQ=..., RDATE:... or EXDATE:..."))


def _times(value: str | None) -> tuple[datetime, ...]:
    return tuple([parse_moment(word, "RDATE") for word in value.split(",")]) if value else ()
