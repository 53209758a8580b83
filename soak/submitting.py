"""Reminders that come in: in files through `duly import`, some files more than once, some reminders cancelled later.

A file whose import did not end well (the database was away) is imported again until it does: that is what an
application would do. What `duly cancel` answered is kept: it is a promise, and the verdict holds Duly to it.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from soak.installation import ACCOUNT, Installation, Kind, path_of
from soak.programs import Once, Place

__all__ = ["Canceller", "Submitted", "Submitter"]

FILE_SECONDS: Final = 2.0
SPREAD_SECONDS: Final = 4.0
REPEATED_PERCENT: Final = 30
CANCELLED_PERCENT: Final = 4
CANCELLED_WITHIN_SECONDS: Final = 6.0
BEHIND_FILES_MAX: Final = 3


@dataclass(slots=True)
class Submitted:
    """A reminder as it was handed in, and what a cancel answered, if there was one."""

    key: str
    kind: Kind
    path: str
    taken: bool = False  # an import that held it ended well
    cancel_asked: bool = False
    cancelled_at: float | None = None  # seconds since 1970: when the cancel had answered
    cancel_answer: dict[str, int] = field(default_factory=dict)

    @property
    def will_not_be_sent(self) -> bool:
        """Whether the cancel said so: it stopped the delivery, or came before there was one."""
        return self.cancelled_at is not None and not any(
            self.cancel_answer.get(word) for word in ("sending", "in_doubt", "final")
        )

    @property
    def may_be_under_way(self) -> bool:
        """Whether the cancel found an attempt under way or in doubt, so that nothing is sent again."""
        return any(self.cancel_answer.get(word) for word in ("sending", "in_doubt"))


class Submitter:
    """Writes a file of new reminders every two seconds, and has files imported one after the other."""

    def __init__(self, installation: Installation, place: Place, dice: random.Random, per_second: float) -> None:
        self.submitted: dict[str, Submitted] = {}
        self.counts: Counter[str] = Counter()
        self.surprises: list[str] = []  # answers of `duly import` that must not be
        self._installation, self._place, self._dice = installation, place, dice
        self._rows = max(1, round(per_second * FILE_SECONDS))
        self._next_file_at = 0.0
        self._queue: deque[Path] = deque()
        self._done: dict[Path, list[str]] = {}
        self._keys: dict[Path, list[str]] = {}
        self._running: tuple[Path, Once] | None = None

    @property
    def idle(self) -> bool:
        """Whether every file has been taken."""
        return self._running is None and not self._queue

    def step(self, now: float, *, more: bool) -> list[Submitted]:
        """Go on; `now` is seconds from the beginning. Without `more` nothing new comes. Returns what was taken."""
        if more and now >= self._next_file_at and len(self._queue) < BEHIND_FILES_MAX:
            self._next_file_at = now + FILE_SECONDS
            self._queue.append(self._write())
            if self._done and self._chance(REPEATED_PERCENT):
                self._queue.append(self._dice.choice(list(self._done)))
        taken = self._collect()
        if self._running is None and self._queue:
            self._import(self._queue[0])
        return taken

    def _write(self) -> Path:
        """A file of new reminders, due within a few seconds."""
        rows = [self._reminder(len(self.submitted) + more) for more in range(self._rows)]
        path = self._place.folder / f"reminders-{len(self._keys)}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        self._keys[path] = [row["idempotency_key"] for row in rows]
        for number, key in enumerate(self._keys[path], start=len(self.submitted)):
            kind = _kind(number)
            self.submitted[key] = Submitted(key, kind, _path(number))
        return path

    def _reminder(self, number: int) -> dict[str, Any]:
        due = datetime.fromtimestamp(time.time() + self._dice.uniform(0, SPREAD_SECONDS), UTC)
        return {
            "idempotency_key": f"note-{number}",
            "account": ACCOUNT,
            "to": {"id": f"of-{number}", "name": "Ana", "webhook": self._installation.url(_path(number))},
            "template": "note",
            "data": {"number": number},
            "notify_at": due.isoformat(timespec="milliseconds"),
        }

    def _import(self, path: Path) -> None:
        self._running = path, Once(self._place, "import", self._installation.command("import", "-", "--json"), path)

    def _collect(self) -> list[Submitted]:
        """What the import that has just ended has taken for the first time."""
        if self._running is None or self._running[1].code is None:
            return []
        path, once = self._running
        self._running = None
        if once.code:
            self.counts["imports that failed"] += 1
            return []
        self._queue.popleft()
        return self._note(path, once.document())

    def _note(self, path: Path, told: dict[str, int]) -> list[Submitted]:
        self.counts["imports"] += 1
        keys, again = self._keys[path], path in self._done
        self._done[path] = keys
        self.counts["imports repeated"] += again
        if told["rejected"] or told["rows"] != len(keys) or (again and told["created"]):
            self.surprises.append(f"import of {path.name}, {'again' if again else 'first'}: {told}")
        if again:
            return []
        for key in keys:
            self.submitted[key].taken = True
        return [self.submitted[key] for key in keys]

    def _chance(self, percent: float) -> bool:
        return self._dice.uniform(0, 100) < percent


def _kind(number: int) -> Kind:
    return list(Kind)[number % len(Kind)]


def _path(number: int) -> str:
    return path_of(_kind(number), number // len(Kind))


class Canceller:
    """Cancels some of the reminders that were taken, one after the other, each until an answer comes."""

    def __init__(self, installation: Installation, place: Place, dice: random.Random) -> None:
        self.counts: Counter[str] = Counter()
        self._installation, self._place, self._dice = installation, place, dice
        self._queue: list[tuple[float, str, Submitted]] = []
        self._running: tuple[Submitted, Once] | None = None

    @property
    def idle(self) -> bool:
        """Whether no cancel is under way."""
        return self._running is None

    def choose(self, now: float, taken: list[Submitted]) -> None:
        """Put some of these on the list."""
        for one in taken:
            if self._dice.uniform(0, 100) < CANCELLED_PERCENT:
                self._queue.append((now + self._dice.uniform(0, CANCELLED_WITHIN_SECONDS), one.key, one))
        self._queue.sort(key=lambda item: item[:2])

    def step(self, now: float, *, more: bool) -> None:
        """Go on; without `more` only what has been started is brought to its end."""
        self._collect()
        if more and self._running is None and self._queue and self._queue[0][0] <= now:
            one = self._queue[0][2]
            one.cancel_asked = True  # it may take effect without an answer
            arguments = ("cancel", one.key, "--account", ACCOUNT, "--json")
            self._running = one, Once(self._place, "cancel", self._installation.command(*arguments))

    def _collect(self) -> None:
        if self._running is None or self._running[1].code is None:
            return
        one, once = self._running
        self._running = None
        if once.code and once.document() is None:  # exit 1 with an answer: it was already sent
            self.counts["cancels that failed"] += 1
            return
        self._queue = [item for item in self._queue if item[2] is not one]
        self.counts["cancels"] += 1
        one.cancelled_at, one.cancel_answer = time.time(), once.document()
        self.counts["cancels that came too late to be sure"] += one.may_be_under_way
