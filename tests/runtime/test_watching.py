"""What a worker says of providers that do not answer: once, and once when they answer again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from structlog.testing import capture_logs

from duly.core import keys
from duly.ports import Answer, HttpRequest, Request
from duly.runtime.watching import FAILING_ENDPOINTS_MAX, FAILURES_TOLD_MIN, LINES_MAX, LINES_SECONDS, Outages, watched
from duly.testing.builders import NAMESPACE
from duly.testing.clock import SimulatedClock
from duly.testing.transport import ACCEPT, NOT_SENT, REJECT, SILENT, UNKNOWN, FakeTransport
from tests.flows.scene import HOOKS
from tests.runtime.world import World, play

A: Final = "https://a.example/in"


class Told:
    """What is told, in order."""

    def __init__(self) -> None:
        self.lines: list[tuple[Any, ...]] = []
        self.outages = Outages(lambda *line: self.lines.append(line), lambda *line: self.lines.append(line))

    def note(self, *answers: Answer, endpoint: str | None = A, reading: float = 0.0) -> list[tuple[Any, ...]]:
        """Note answers; what is told from the beginning."""
        for answer in answers:
            self.outages.note(endpoint, answer, reading)
        return self.lines


@pytest.fixture
def lines() -> Iterator[list[Any]]:
    """What is logged."""
    with capture_logs() as captured:
        yield captured


def test_an_outage_is_told_once_and_so_is_its_end() -> None:
    """Three in a row are an outage, more of them are the same one, and any answer ends it."""
    told = Told()
    assert told.note(NOT_SENT, UNKNOWN) == []
    assert told.note(NOT_SENT, NOT_SENT, reading=2.0) == [(A, 3, "connect")]
    assert told.note(REJECT, ACCEPT, reading=9.0) == [(A, 3, "connect"), (A, 4, 9.0)]


def test_one_answer_between_them_is_no_outage() -> None:
    """Failures count in a row, for each endpoint by itself."""
    told = Told()
    told.note(NOT_SENT, NOT_SENT, ACCEPT, NOT_SENT, NOT_SENT)
    told.note(NOT_SENT, NOT_SENT, endpoint="https://b.example/in")
    assert told.lines == []


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Answer(error="timeout"), "timeout"),
        (Answer(status=503), "status 503"),
        (Answer(status=421, phase="connect"), "status 421"),
        (Answer(status=550, phase="rcpt"), None),
        (Answer(status=429), None),
        (Answer(error="too_late"), None),
        (Answer(error="refused_address"), None),
    ],
)
def test_what_is_an_outage(answer: Answer, why: str | None) -> None:
    """Who says no is there; who says 5xx, or a mail server 421, is not; what was not asked says nothing."""
    assert Told().note(*[answer] * FAILURES_TOLD_MIN) == ([] if why is None else [(A, 3, why)])


def test_lines_are_bounded() -> None:
    """Of many endpoints that fail at once some are told, and the others later, if they still fail."""
    told = Told()
    for number in range(LINES_MAX + 5):
        told.note(*[NOT_SENT] * 3, endpoint=f"{A}{number}")
    assert len(told.lines) == LINES_MAX
    told.note(ACCEPT, endpoint=f"{A}{LINES_MAX}")
    assert len(told.lines) == LINES_MAX
    told.note(NOT_SENT, endpoint=f"{A}{LINES_MAX + 1}", reading=LINES_SECONDS)
    assert told.lines[LINES_MAX:] == [(f"{A}{LINES_MAX + 1}", 4, "connect")]


def test_memory_is_bounded() -> None:
    """Beyond so many endpoints that fail, nothing more is remembered."""
    told = Told()
    for number in range(FAILING_ENDPOINTS_MAX):
        told.note(NOT_SENT, endpoint=str(number))
    assert told.note(*[NOT_SENT] * 5) == []


def test_what_is_cut_at_the_end_is_nobodys_fault() -> None:
    """Requests that are cut when the transport is closed are answered as ever, and not noted."""
    clock, told = SimulatedClock(), Told()
    transport = watched(FakeTransport(clock), told.outages)

    async def cut() -> int:
        transport._transport.plan(A, SILENT)  # type: ignore[attr-defined]
        content = HttpRequest("POST", A, (), b"")
        await transport.start([Request(token, content, 9.0) for token in range(5)])
        await transport.close()
        return len(await transport.completed(10, 0.0))

    assert asyncio.run(cut()) == 5
    assert told.lines == []


def test_a_worker_tells_its_endpoint_by_its_id(tmp_path: Path, lines: list[Any]) -> None:
    """The log names provider and endpoint, how often it failed and why, and never an address."""

    async def story(made: World) -> None:
        made.transport.plan(A, NOT_SENT, NOT_SENT, NOT_SENT, ACCEPT)
        await made.ready("a", url=A)
        await made.worker().run(idle_after=60.0)

    play(tmp_path, story)
    failing, answers = [line for line in lines if line["event"].startswith("provider_")]
    endpoint = keys.show(keys.endpoint_id(NAMESPACE, A))
    assert (failing["provider"], failing["endpoint"], failing["attempts"], failing["why"]) == (
        HOOKS,
        endpoint,
        3,
        "connect",
    )
    assert (answers["event"], answers["endpoint"], answers["attempts"]) == ("provider_answers", endpoint, 3)
    assert answers["away_seconds"] > 0
    assert "example" not in str(lines)
