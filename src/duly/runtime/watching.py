"""A provider that is down is told once, and once when it answers again.

A worker's answers pass through here on their way to be settled. What fails for want of an answer (no connection, a
timeout, a cut, an HTTP 5xx, an SMTP 421) several times in a row for one endpoint is an outage; any other answer ends
it. Deliveries are looked after elsewhere: this only tells. Each worker tells what it sees itself.

However many endpoints fail or flap, one provider's outages cost so many lines a minute at most; each has one end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, cast

from duly.ports import Answer, Completion, HttpRequest, Request, Transport

__all__ = ["FAILURES_TOLD_MIN", "LINES_MAX", "LINES_SECONDS", "Outages", "watched"]

FAILURES_TOLD_MIN: Final = 3
LINES_MAX: Final = 10
LINES_SECONDS: Final = 60.0
#: Endpoints that are watched at once: of more that fail, nothing is told.
FAILING_ENDPOINTS_MAX: Final = 10_000
#: What says nothing about the receiver: we did not ask.
NOT_ASKED: Final = frozenset({"too_late", "refused_address"})
SMTP_UNAVAILABLE: Final = 421

#: Tells an outage, or its end: the endpoint's URL (None: the provider has one only), failures in a row, and why it
#: fails, or for how many seconds it did.
Tell = Callable[[str | None, int, str], None]
TellEnd = Callable[[str | None, int, float], None]


@dataclass(slots=True)
class _Failing:
    since: float
    failures: int = 0
    told: bool = False


class Outages:
    """Counts what fails in a row, for each endpoint of one provider."""

    def __init__(self, began: Tell, ended: TellEnd) -> None:
        self._began, self._ended = began, ended
        self._failing: dict[str | None, _Failing] = {}
        self._lines: deque[float] = deque(maxlen=LINES_MAX)

    def note(self, endpoint: str | None, answer: Answer, reading: float) -> None:
        """Note an answer, complete at that reading of the clock."""
        if answer.error in NOT_ASKED:
            return
        why = _failure(answer)
        if why is not None:
            self._failed(endpoint, why, reading)
        elif self._failing:
            self._answered(endpoint, reading)

    def _failed(self, endpoint: str | None, why: str, reading: float) -> None:
        one = self._failing.get(endpoint)
        if one is None:
            if len(self._failing) >= FAILING_ENDPOINTS_MAX:
                return
            one = self._failing[endpoint] = _Failing(reading)
        one.failures += 1
        if one.failures >= FAILURES_TOLD_MIN and not one.told and self._may_tell(reading):
            one.told = True
            self._began(endpoint, one.failures, why)

    def _answered(self, endpoint: str | None, reading: float) -> None:
        one = self._failing.pop(endpoint, None)
        if one is not None and one.told:
            self._ended(endpoint, one.failures, reading - one.since)

    def _may_tell(self, reading: float) -> bool:
        if len(self._lines) == LINES_MAX and reading - self._lines[0] < LINES_SECONDS:
            return False
        self._lines.append(reading)
        return True


def _failure(answer: Answer) -> str | None:
    """Why there is no answer of the receiver's own, in a word; None if there is one."""
    if answer.error is not None:
        return answer.error
    status = answer.status or 0
    down = status == SMTP_UNAVAILABLE if answer.phase else status >= 500  # noqa: PLR2004 - as HTTP has it
    return f"status {status}" if down else None


class Watched:
    """A transport whose answers are noted. What is cut when it is closed says nothing about anybody."""

    def __init__(self, transport: Transport, outages: Outages) -> None:
        self._transport, self._outages = transport, outages
        self._under_way: dict[int, str | None] = {}
        self._closed = False

    def __getattr__(self, name: str) -> object:
        return getattr(self._transport, name)

    async def start(self, batch: Sequence[Request]) -> None:
        """See Transport.start."""
        for request in batch:
            self._under_way[request.token] = _endpoint(request)
        await self._transport.start(batch)

    async def completed(self, limit: int, max_wait: float) -> list[Completion]:
        """See Transport.completed."""
        landed = await self._transport.completed(limit, max_wait)
        for one in landed:
            endpoint = self._under_way.pop(one.token)
            if not self._closed:
                self._outages.note(endpoint, one.answer, one.finished)
        return landed

    async def close(self) -> None:
        """See Transport.close."""
        self._closed = True
        await self._transport.close()


def _endpoint(request: Request) -> str | None:
    return request.content.url if isinstance(request.content, HttpRequest) else None


def watched(transport: Transport, outages: Outages) -> Transport:
    """The same transport, with an eye on its answers."""
    return cast("Transport", Watched(transport, outages))
