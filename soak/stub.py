"""The receivers: one process, one port, and behind each path a receiver that keeps exactly what it promises.

    /keyed/N        remembers every webhook-id that counted; a repeat is dropped and answered like the first
    /lookup/N       drops nothing; GET /deliveries/ID says, once it has settled, whether the id counted
    /nothing/N      neither: what comes twice counts twice

How a request is met is drawn from the seed, a row of `ACTS`: most are answered after a moment, the others
are the ways in which a sender is left without the truth. A message may count late, and a look-up may say
"not here" of a message that counted; both end `settling` seconds after the request, as promised.

Every line of the journal is written before the sender hears anything. SIGUSR1 makes the receivers behave.

`python -m soak.stub --journal FILE --seed 1` prints its port as one line of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import random
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from duly.testing.http1 import Answer, Connection, Manner, Message, reply
from soak.journal import Journal, Seen

__all__ = ["ACTS", "LOOKS", "LOOK_UPS", "Act", "Promises", "Stub"]

BACKLOG_CONNECTIONS_MAX: Final = 256
LOOK_UPS: Final = "/deliveries/"
#: Before an honest answer, seconds: long enough for a kill to fall into.
THOUGHT_SECONDS: Final = (0.05, 0.5)
#: What is left of the settling time when a message counts late, and when a look-up is behind, at the least.
SETTLED_EARLY: Final = 0.2
DEAF_PERCENT: Final = 2.0
BEHIND_PERCENT: Final = 80.0


class When(NamedTuple):
    """When a message counts, if it does."""

    counts: bool = False
    late: bool = False


class Act(NamedTuple):
    """How a receiver meets a request: how often (a weight), whether the message counts, and what the sender hears."""

    weight: float
    when: When
    manner: Manner
    data: bytes = b""
    overdue: bool = False  # the answer comes when the sender has given up


COUNTS: Final = When(counts=True)
COUNTS_LATE: Final = When(counts=True, late=True)
NEVER: Final = When()

OK: Final = reply("200 OK", b"ok")
LAST_WORD: Final = reply("200 OK", b"ok", "Connection: close")
BUSY: Final = reply("429 Too Many Requests", b"later, please", "Retry-After: 1")
CLOSED: Final = reply("503 Service Unavailable", b"closed for a moment", "Retry-After: 1")
DOWN: Final = reply("503 Service Unavailable", b"down")
BROKEN: Final = reply("500 Internal Server Error", b"broken")

ACTS: Final[Mapping[str, Act]] = {
    "ok": Act(75, COUNTS, Manner.AFTER_A_WHILE, OK),
    "last": Act(3, COUNTS, Manner.AFTER_A_WHILE, LAST_WORD),
    "lost": Act(3, COUNTS, Manner.CUT),
    "late": Act(1.5, COUNTS, Manner.AFTER_A_WHILE, OK, overdue=True),
    "delayed": Act(2, COUNTS_LATE, Manner.CUT),
    "broken_after": Act(2, COUNTS, Manner.AT_ONCE, BROKEN),
    "broken": Act(2, NEVER, Manner.AT_ONCE, BROKEN),
    "reset": Act(2, NEVER, Manner.CUT),
    "silent": Act(0.5, NEVER, Manner.NEVER),
    "down": Act(2, NEVER, Manner.AT_ONCE, DOWN),
    "busy": Act(4, NEVER, Manner.AT_ONCE, BUSY),
    "closed": Act(3, NEVER, Manner.AT_ONCE, CLOSED),
}
#: How a look-up is met, by weight. `told` is the only honest one.
LOOKS: Final[Mapping[str, float]] = {"told": 85, "broken": 4, "busy": 4, "reset": 4, "late": 3}


class Promises(NamedTuple):
    """What the sender may rely on, and how long it waits for an answer. Seconds."""

    timeout: float
    settling: float


class Stub:
    """What stands behind the connections: a `Site` of duly.testing.http1."""

    def __init__(self, journal: Journal, promises: Promises, dice: random.Random) -> None:
        self.slow_seconds = 0.0  # of the answer that was just decided: its connection reads it at once
        self.calm = False
        self._journal, self._promises, self._dice = journal, promises, dice
        self._asked: dict[str, float] = {}  # by id: when its latest request came, on the loop's clock
        self._counted: set[str] = set()

    def opened(self, connection: Connection) -> None:
        """A connection begins; some are closed before a byte is read."""
        if not self.calm and self._chance(DEAF_PERCENT):
            connection.cut()

    def closed(self, connection: Connection) -> None:
        """A connection has ended."""

    def behave(self) -> None:
        """Misbehave no more."""
        self.calm = True

    def answer(self, message: Message) -> Answer:
        """Take one request in, write it down, and decide what its sender hears."""
        path, identity = message.target.decode("latin-1"), message.id.decode("latin-1")
        if message.method == b"GET":
            return self._look(path)
        act_name = "ok" if self.calm else self._draw({name: act.weight for name, act in ACTS.items()})
        body_hash = hashlib.sha256(message.body).hexdigest()
        self._journal.write(Seen.REQUEST, path, identity, body_hash, act_name)
        act = ACTS[act_name]
        self._count_if_it_does(act, path, identity, body_hash)
        return self._told(act.manner, act.data, overdue=act.overdue)

    # --- what counts -----------------------------------------------------------------------------

    def _count_if_it_does(self, act: Act, path: str, identity: str, body_hash: str) -> None:
        loop = asyncio.get_running_loop()
        self._asked[identity] = loop.time()
        if act.when.late:
            wait = self._dice.uniform(0, self._promises.settling - SETTLED_EARLY)
            loop.call_later(wait, self._count, path, identity, body_hash, "delayed")
        elif act.when.counts:
            self._count(path, identity, body_hash, "at once")

    def _count(self, path: str, identity: str, body_hash: str, act: str) -> None:
        """Once for every id where ids are remembered, every time elsewhere."""
        drops = path.startswith("/keyed/") and identity in self._counted
        self._counted.add(identity)
        self._journal.write(Seen.REPEAT if drops else Seen.ACCEPTED, path, identity, body_hash, act)

    # --- look-ups --------------------------------------------------------------------------------

    def _look(self, path: str) -> Answer:
        where, _, identity = path.rpartition("/")
        how = "told" if self.calm else self._draw(LOOKS)
        found = identity in self._counted and not self._is_behind(identity)
        self._journal.write(Seen.LOOK, where, identity, "", how if how != "told" else "found" if found else "missing")
        if how == "reset":
            return Answer(Manner.CUT)
        if how in ("broken", "busy"):
            return Answer(Manner.AT_ONCE, BROKEN if how == "broken" else BUSY)
        truth = _found(identity) if found else reply("404 Not Found", b"{}")
        return self._told(Manner.AFTER_A_WHILE, truth, overdue=how == "late")

    def _is_behind(self, identity: str) -> bool:
        """Within the settling time a look-up may know less than the receiver."""
        age = asyncio.get_running_loop().time() - self._asked[identity]
        return age < self._promises.settling - SETTLED_EARLY and self._chance(BEHIND_PERCENT)

    # --- parts -----------------------------------------------------------------------------------

    def _told(self, manner: Manner, data: bytes, *, overdue: bool = False) -> Answer:
        self.slow_seconds = self._dice.uniform(*THOUGHT_SECONDS) + (self._promises.timeout if overdue else 0.0)
        return Answer(manner, data)

    def _draw(self, weights: Mapping[str, float]) -> str:
        return self._dice.choices(list(weights), list(weights.values()))[0]

    def _chance(self, percent: float) -> bool:
        return self._dice.uniform(0, 100) < percent


def _found(identity: str) -> bytes:
    return reply("200 OK", json.dumps({"id": identity}).encode(), "Content-Type: application/json")


async def _serve(chosen: argparse.Namespace) -> None:
    """Run until a signal asks for the end."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    journal = Journal(chosen.journal, time.time)
    stub = Stub(journal, Promises(chosen.timeout, chosen.settling), random.Random(chosen.seed))
    loop.add_signal_handler(signal.SIGUSR1, stub.behave)
    server = await loop.create_server(
        lambda: Connection(stub), "127.0.0.1", chosen.port, backlog=BACKLOG_CONNECTIONS_MAX
    )
    sys.stdout.write(json.dumps({"port": server.sockets[0].getsockname()[1]}) + "\n")
    sys.stdout.flush()
    await stop.wait()
    server.close()
    journal.close()


def main() -> None:
    """Read the options, serve, print the port."""
    parser = argparse.ArgumentParser(prog="python -m soak.stub", description="Receivers that misbehave on purpose.")
    parser.add_argument("--journal", type=Path, required=True, help="what they saw is appended to this file")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--port", type=int, default=0, help="0: any free port; it is printed")
    parser.add_argument("--timeout", type=float, default=3.0, help="for how long a sender waits, seconds")
    parser.add_argument("--settling", type=float, default=2.0, help="the promised settling time, seconds")
    asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
