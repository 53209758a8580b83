"""The scheduler: one thread of chance decides who goes on, when, and with which fate.

Coroutines are driven by hand. Each runs from one port call to the next, and waits there until it is drawn
again. When nobody can go on, time moves to the next moment at which somebody can. A worker's coroutines
share an `Incarnation`, and die with it: they are closed where they stand, in the middle of anything.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

from duly.sim.chance import Chance
from duly.sim.clocks import SECOND_US, Time
from duly.sim.faults import Faults, Kind
from duly.sim.turns import NEVER_US, Fate, Turn

__all__ = ["Actor", "Deadly", "Incarnation", "Scheduler"]

CALL_SECONDS: Final = (0.0002, 0.02)
LEAP_SECONDS: Final = (0.05, 20.0)
FREEZE_SECONDS: Final = (1.0, 400.0)
WAKE_SECONDS: Final = (0.001, 2.0)
#: How often the database, once it has not answered, is away for a while.
AWAY_PART: Final = 0.3
AWAY_SECONDS: Final = (0.1, 60.0)
FREEZES: Final = {"transport.start": Kind.FREEZE_BEFORE_SENDING}
#: Where a coroutine stands before its first line.
FIRST: Final = Turn("start")

OF_DATABASE: Final = {
    Kind.STORE_UNANSWERED: Fate.UNANSWERED,
    Kind.STORE_REPLY_LOST: Fate.REPLY_LOST,
    Kind.STORE_REPLY_SLOW: Fate.REPLY_SLOW,
}


class Deadly(BaseException):
    """A bug that takes its whole worker with it: nothing in the worker catches it."""


@dataclass(eq=False, slots=True)
class Incarnation:
    """One life of one program. People and receivers have one that never ends."""

    name: str
    mortal: bool = True
    alive: bool = True
    frozen_until_us: int = 0


@dataclass(eq=False, slots=True)
class Actor:
    """A coroutine, who runs it, and where it stands."""

    name: str
    life: Incarnation
    coroutine: Coroutine[Any, Any, None]
    turn: Turn


@dataclass(eq=False)
class Scheduler:
    """Runs actors. `due` tells from when on the ledger has something for a duty; `told` hears what goes on."""

    time: Time
    chance: Chance
    faults: Faults
    due: Callable[[str], int]
    told: Callable[[Incarnation, str], None]
    current: Actor | None = None
    actors: list[Actor] = field(default_factory=list)
    _agenda: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    _planned: int = 0
    _away_until_us: int = 0

    def start(self, life: Incarnation, name: str, coroutine: Coroutine[Any, Any, None]) -> None:
        """Let a coroutine take part, from its first line on."""
        self.actors.append(Actor(name, life, coroutine, FIRST))

    def at(self, us: int, action: Callable[[], None]) -> None:
        """Let something happen at a moment, by itself."""
        self._planned += 1
        heapq.heappush(self._agenda, (us, self._planned, action))

    def kill(self, life: Incarnation, why: str) -> None:
        """End a life: its coroutines stop where they stand."""
        life.alive = False
        self.told(life, why)
        for actor in [actor for actor in self.actors if actor.life is life]:
            self.actors.remove(actor)
            if actor is not self.current:
                actor.coroutine.close()

    def wake(self, names: Collection[str], chance: Chance) -> None:
        """Let frozen ones of these names go on soon: each of their coroutines may be what wakes them."""
        for life in (actor.life for actor in self.actors):
            if life.name in names and life.frozen_until_us > self.time.us and chance.happens(0.5):
                life.frozen_until_us = self.time.after(chance.spread(*WAKE_SECONDS))

    def rested(self) -> None:
        """Something has changed: whoever rests may look again soon."""
        for actor in self.actors:
            if actor.turn.duty is not None:
                actor.turn.rest_us = min(actor.turn.rest_us, actor.turn.wake_us)

    def step(self) -> bool:
        """Let one actor take its turn. False: nothing will ever happen again."""
        while True:
            self._keep_agenda()
            now = self.time.us
            able = [actor for actor in self.actors if self._is_able(actor, now)]
            if able:
                self._advance(self.chance.pick(able))
                return True
            moment = self._next_moment()
            if moment >= NEVER_US:
                return False
            self.time.us = max(now, moment)

    # --- when ------------------------------------------------------------------------------------

    def _keep_agenda(self) -> None:
        while self._agenda and self._agenda[0][0] <= self.time.us:
            heapq.heappop(self._agenda)[2]()

    def _next_moment(self) -> int:
        moments = [self._able_at(actor) for actor in self.actors]
        if self._agenda:
            moments.append(self._agenda[0][0])
        return min(moments, default=NEVER_US)

    def _is_able(self, actor: Actor, now: int) -> bool:
        """The same as `_able_at` being past, only quicker: it is asked of everybody at every step."""
        if actor.life.frozen_until_us > now:
            return False
        turn = actor.turn
        if turn.duty is not None:
            return turn.rest_us <= now and self.due(turn.duty) <= now
        return turn.wake_us <= now or (turn.ready is not None and turn.ready())

    def _able_at(self, actor: Actor) -> int:
        """From when on it can go on."""
        turn = actor.turn
        if turn.duty is not None:
            moment = max(turn.rest_us, self.due(turn.duty))
        elif turn.ready is not None and turn.ready():
            moment = 0
        else:
            moment = turn.wake_us
        return max(moment, actor.life.frozen_until_us)

    # --- what ------------------------------------------------------------------------------------

    def _advance(self, actor: Actor) -> None:
        fate = self._fate(actor)
        if fate is None:
            return
        self._pass_time()
        self.current = actor
        try:
            actor.turn = actor.coroutine.send(None if actor.turn is FIRST else fate)
        except StopIteration:
            self.actors.remove(actor)
        except Deadly as reason:
            self.kill(actor.life, f"dies of {reason}")
        finally:
            self.current = None
        if not actor.life.alive:
            actor.coroutine.close()

    def _pass_time(self) -> None:
        """Every call takes a moment; now and then a long one."""
        seconds = self.chance.spread(*(LEAP_SECONDS if self.faults.strikes(Kind.LEAP) else CALL_SECONDS))
        self.time.us += round(seconds * SECOND_US)

    def _fate(self, actor: Actor) -> Fate | None:
        """What becomes of the call; None if it is not made now. A rest is no call."""
        turn, life = actor.turn, actor.life
        if turn.duty is not None:
            return Fate.GOES
        if life.mortal:
            if self.faults.strikes(Kind.CRASH_BEFORE_CALL):
                self.kill(life, f"dies before {turn.call}")
                return None
            if self.faults.strikes(FREEZES.get(turn.call, Kind.FREEZE)):
                life.frozen_until_us = self.time.after(self.chance.spread(*FREEZE_SECONDS))
                self.told(
                    life, f"freezes before {turn.call}, until {self.time.moment(life.frozen_until_us):%d %H:%M:%S}"
                )
                return None
            if self.faults.strikes(Kind.CRASH_AFTER_CALL):
                return Fate.DIES_AFTER
        return self._fate_of_database() if turn.fragile else Fate.GOES

    def _fate_of_database(self) -> Fate:
        """What becomes of a call of the database: while it is away, it answers nobody."""
        if self.faults.on and self.time.us < self._away_until_us:
            return Fate.UNANSWERED
        fault = self.faults.first(OF_DATABASE)
        if fault is Kind.STORE_UNANSWERED and self.chance.happens(AWAY_PART):
            self._away_until_us = self.time.after(self.chance.spread(*AWAY_SECONDS))
        return Fate.GOES if fault is None else OF_DATABASE[fault]
