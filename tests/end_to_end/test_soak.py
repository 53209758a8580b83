"""A short soak on each database; and the soak itself finds what it is there to find, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from duly.testing.http1 import Manner, Message
from soak import driver, faults, journal, verdict
from soak.installation import Kind
from soak.journal import Entry, Journal, Seen
from soak.ledger import Ledger
from soak.programs import Failed
from soak.stub import ACTS, LOOK_UPS, Promises, Stub
from soak.submitting import Submitted
from tests.end_to_end.installation import DIALECTS, tell_on_both
from tests.tidy.project import ROOT

SECONDS: Final = 15.0
KILLS: Final = 6
RESTARTS: Final = 2
DRAIN_SECONDS_MAX: Final = 150.0
START_SECONDS_MAX: Final = 90.0


# --- a short soak --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def soaks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Future[dict[str, Any]]]:
    """Both databases under fire, side by side."""
    return tell_on_both(_soaked, tmp_path_factory.mktemp("soak"))


def _soaked(dialect: str, folder: Path) -> dict[str, Any]:
    del folder  # it has its own
    if dialect == "postgres":
        pytest.importorskip("psycopg", reason="PostgreSQL is not tested: its driver is not installed")
    plan = driver.Plan(dialect, SECONDS, 7, KILLS, RESTARTS, 10.0, DRAIN_SECONDS_MAX)
    try:
        return driver.soak(plan)
    except Failed as error:
        if "no PostgreSQL server binaries" in str(error) and not os.environ.get("DULY_TEST_POSTGRES_REQUIRED"):
            pytest.skip(f"no PostgreSQL to crash: {error}")
        raise


@pytest.fixture(params=DIALECTS)
def soaked(request: pytest.FixtureRequest, soaks: dict[str, Future[dict[str, Any]]]) -> dict[str, Any]:
    """The figures of each database in turn."""
    return soaks[request.param].result()


def test_every_promise_holds_under_fire(soaked: dict[str, Any]) -> None:
    """With workers and ticks killed, the database crashed and receivers that misbehave, no promise is broken."""
    assert soaked["violations"] == []


def test_the_fire_met_somebody(soaked: dict[str, Any]) -> None:
    """The short soak is no idle one: requests were under way at kills, and every rung of the ladder was needed."""
    kinds, counts = soaked["receivers"], soaked["counts"]
    assert counts["workers killed"] + counts.get("ticks killed", 0) >= KILLS
    assert sum(one["worker_lost"] for one in kinds.values()) > 0
    assert kinds["keyed"]["repeats_dropped"] > 0
    assert kinds["lookup"]["look_ups"] > 0
    assert kinds["nothing"]["held"] > 0


def test_what_can_be_asked_or_repeated_needs_no_operator(soaked: dict[str, Any]) -> None:
    """Only a receiver that promises nothing leaves holds, but for reminders that were cancelled in doubt."""
    kinds = soaked["receivers"]
    cancelled_in_doubt = soaked["counts"].get("cancels that came too late to be sure", 0)
    assert kinds["keyed"]["held"] + kinds["lookup"]["held"] <= cancelled_in_doubt
    assert kinds["nothing"]["held"] <= kinds["nothing"]["were_in_doubt"]


def test_an_interrupted_soak_leaves_nothing_running(tmp_path: Path) -> None:
    """Ctrl-C ends every program that was started, removes the folder, and exits 130."""
    command = [sys.executable, "-m", "soak", "--database", "sqlite", "--minutes", "1", "--kills", "0"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True) as program:
        started = _started_by(program)
        program.send_signal(signal.SIGINT)
        _, said = program.communicate(timeout=START_SECONDS_MAX)
    assert program.returncode == 130, said
    assert [pid for pid in started if _runs(pid)] == []
    assert list(tmp_path.iterdir()) == []


def _started_by(program: subprocess.Popen[str]) -> list[int]:
    """The stub, two workers and whatever else runs, as soon as there are that many."""
    children = Path(f"/proc/{program.pid}/task/{program.pid}/children")
    if not children.exists():
        pytest.skip("this system does not tell what a program has started")
    give_up = time.monotonic() + START_SECONDS_MAX
    while len(found := children.read_text().split()) < 4:
        assert time.monotonic() < give_up, f"only {found} were started"
        time.sleep(0.05)
    return [int(pid) for pid in found]


def _runs(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


# --- the verdict ---------------------------------------------------------------------------------

AT: Final = datetime(2026, 12, 1, 9, tzinfo=UTC)
SECOND: Final = AT.timestamp()


class Story:
    """One delivery of each kind, sent and accepted; each test spoils something."""

    def __init__(self) -> None:
        self.submitted = {kind.value: Submitted(kind.value, kind, f"/{kind}/0", taken=True) for kind in Kind}
        self.shown: dict[str, dict[str, Any]] = {f"id-{kind}": _delivery(kind) for kind in Kind}
        self.without: dict[str, str] = {}
        self.entries = [entry for kind in Kind for entry in (_seen(kind, Seen.REQUEST), _seen(kind, Seen.ACCEPTED))]

    def broken(self) -> set[str]:
        """The rules that are broken."""
        evidence = verdict.Evidence(self.submitted, self.entries, Ledger(self.shown, self.without))
        found = verdict.judge(evidence)
        assert all(verdict.history(evidence, one.id) for one in found if one.id in self.shown)
        return {one.rule for one in found}


def _delivery(kind: Kind) -> dict[str, Any]:
    return {
        "reminder": kind.value,
        "status": "sent",
        "reason": "accepted",
        "next_at": None,
        "attempts": [_attempt(1, "accepted")],
        "events": [
            {"at": AT.isoformat(), "kind": "decided", "from": "ready", "to": "sent", "reason": "x", "actor": "w"}
        ],
    }


def _attempt(number: int, outcome: str | None, failure: str | None = None) -> dict[str, Any]:
    return {
        "number": number,
        "outcome": outcome,
        "class": failure,
        "http_status": None,
        "started_at": AT.isoformat(),
        "finished_at": AT.isoformat() if outcome else None,
        "payload_hash": "aa",
        "worker": "w",
    }


def _seen(kind: Kind, seen: Seen, body_hash: str = "aa", at: float = SECOND) -> Entry:
    return Entry(at, seen, f"/{kind}/0", f"id-{kind}", body_hash, "ok")


def test_a_healthy_story_breaks_no_rule() -> None:
    """What was submitted once, asked once, accepted once and sent is in order."""
    assert Story().broken() == set()


def _loses_a_delivery(story: Story) -> None:
    del story.shown["id-keyed"]
    story.entries = [one for one in story.entries if one.id != "id-keyed"]
    story.without["keyed"] = "active"


def _leaves_one_waiting(story: Story) -> None:
    story.shown["id-keyed"].update(status="waiting", attempts=[_attempt(1, "refused")])
    story.entries = [one for one in story.entries if one != _seen(Kind.KEYED, Seen.ACCEPTED)]


def _sends_what_nobody_took(story: Story) -> None:
    story.entries = [one for one in story.entries if one != _seen(Kind.KEYED, Seen.ACCEPTED)]
    story.shown["id-keyed"]["attempts"][0]["outcome"] = "unknown"


def _rejects_what_was_taken(story: Story) -> None:
    story.shown["id-lookup"].update(status="rejected", attempts=[_attempt(1, "rejected")])


def _sends_twice(story: Story) -> None:
    story.shown["id-nothing"]["attempts"].append(_attempt(2, "accepted"))
    story.entries += [_seen(Kind.NOTHING, Seen.REQUEST), _seen(Kind.NOTHING, Seen.ACCEPTED)]


def _repeats_other_bytes(story: Story) -> None:
    story.shown["id-keyed"]["attempts"].append({**_attempt(2, "accepted"), "payload_hash": "bb"})
    story.entries += [_seen(Kind.KEYED, Seen.REQUEST, "bb"), _seen(Kind.KEYED, Seen.REPEAT, "bb")]


def _asks_again(story: Story) -> None:
    story.shown["id-lookup"]["attempts"].append(_attempt(2, "refused"))
    story.entries.append(_seen(Kind.LOOKUP, Seen.REQUEST))


def _sends_in_doubt(story: Story) -> None:
    story.shown["id-nothing"]["attempts"].insert(0, _attempt(0, None))


def _ends_in_doubt(story: Story) -> None:
    story.shown["id-nothing"]["attempts"][0]["outcome"] = "unknown"


def _forgets_an_attempt(story: Story) -> None:
    story.entries.insert(0, _seen(Kind.KEYED, Seen.REQUEST))


def _hears_from_a_stranger(story: Story) -> None:
    story.entries.append(Entry(SECOND, Seen.REQUEST, "/keyed/0", "id-of-nobody", "aa", "ok"))


def _sends_unrecorded_bytes(story: Story) -> None:
    story.shown["id-keyed"]["attempts"][0]["payload_hash"] = "cc"


def _imagines_an_answer(story: Story) -> None:
    story.shown["id-keyed"]["attempts"].append(_attempt(2, "accepted"))


def _sends_what_was_cancelled(story: Story) -> None:
    story.submitted["keyed"].cancelled_at = SECOND - 1.0
    story.submitted["keyed"].cancel_answer = {"cancelled": 1, "sending": 0, "in_doubt": 0, "final": 0}


def _looks_where_nothing_is_offered(story: Story) -> None:
    story.entries.append(_seen(Kind.NOTHING, Seen.LOOK))


SPOILED: Final[list[tuple[Callable[[Story], None], str]]] = [
    (_loses_a_delivery, "every reminder has its delivery"),
    (_leaves_one_waiting, "every delivery is final or held"),
    (_sends_what_nobody_took, "sent means accepted"),
    (_rejects_what_was_taken, "accepted means sent, held or unconfirmed"),
    (_sends_twice, "nothing is accepted twice"),
    (_repeats_other_bytes, "a repeat has the same bytes"),
    (_asks_again, "nobody is asked again who had accepted"),
    (_sends_in_doubt, "nothing is sent in doubt where nothing can be asked"),
    (_ends_in_doubt, "nothing is sent in doubt where nothing can be asked"),
    (_forgets_an_attempt, "no request without its attempt"),
    (_hears_from_a_stranger, "no request without its attempt"),
    (_sends_unrecorded_bytes, "no bytes without their attempt"),
    (_imagines_an_answer, "an attempt is accepted only if it was"),
    (_sends_what_was_cancelled, "nothing is sent after a cancel that stopped it"),
    (_looks_where_nothing_is_offered, "nobody is looked up who did not offer it"),
]


@pytest.mark.parametrize(("spoil", "rule"), SPOILED, ids=[spoil.__name__.strip("_") for spoil, _ in SPOILED])
def test_a_broken_promise_is_found(spoil: Callable[[Story], None], rule: str) -> None:
    """Each rule finds the story that breaks it."""
    story = Story()
    spoil(story)
    assert rule in story.broken()


def test_no_rule_is_without_a_story() -> None:
    """Every rule of the verdict has been seen to find something."""
    assert {rule for _, rule in SPOILED} == set(verdict.RULES)


def test_a_cancel_in_time_needs_no_delivery() -> None:
    """A reminder that was cancelled before a tick found it is not lost."""
    story = Story()
    _loses_a_delivery(story)
    story.without["keyed"] = "cancelled"
    assert story.broken() == {"every reminder has its delivery"}
    story.submitted["keyed"].cancel_asked = True
    assert story.broken() == set()


# --- what goes wrong -----------------------------------------------------------------------------


def test_the_seed_decides_what_goes_wrong() -> None:
    """The same seed draws the same schedule, another one another."""
    one, same, other = (faults.draw(random.Random(seed), 60.0, 10, 4) for seed in (1, 1, 2))
    assert one == same != other
    assert sum(fault.kind.startswith("kill -9") for fault in one) == 10


def test_the_database_is_stopped_by_turns() -> None:
    """Crashes and orderly stops alternate, each within its own span of the run, and each ends."""
    kinds = (faults.FaultKind.CRASH, faults.FaultKind.DISCONNECT)
    stops = [one for one in faults.draw(random.Random(1), 12.0, 5, 6) if one.kind in kinds]
    assert [one.kind for one in stops] == [*kinds] * 3
    assert all(number * 2.0 <= one.at <= number * 2.0 + 2.0 for number, one in enumerate(stops))
    assert all(0 < one.lasts <= 2.0 for one in stops)


# --- the receivers -------------------------------------------------------------------------------


def _post(path: str, identity: str) -> Message:
    return Message(b"POST", path.encode(), identity.encode(), b"", b"body", 0, last=False)


def _told(path: Path, calm: bool, *messages: Message) -> list[Entry]:
    """What a stub wrote of these requests; seed 1 has it misbehave unless it is calm."""

    async def tell() -> None:
        log = Journal(path, lambda: 0.0)
        stub = Stub(log, Promises(timeout=0.1, settling=0.3), random.Random(1))
        stub.calm = calm
        for message in messages:
            stub.answer(message)
        await asyncio.sleep(0.3)
        log.close()

    asyncio.run(tell())
    return journal.read(path)


@pytest.mark.parametrize(
    ("kind", "again"), [("keyed", Seen.REPEAT), ("lookup", Seen.ACCEPTED), ("nothing", Seen.ACCEPTED)]
)
def test_a_receiver_keeps_its_promise(tmp_path: Path, kind: str, again: Seen) -> None:
    """Where ids are remembered a repeat is dropped; elsewhere what comes twice counts twice."""
    told = _told(tmp_path / "journal", True, _post(f"/{kind}/0", "a"), _post(f"/{kind}/0", "a"))
    assert [entry.seen for entry in told] == [Seen.REQUEST, Seen.ACCEPTED, Seen.REQUEST, again]


def test_a_look_up_tells_the_truth_when_it_has_settled(tmp_path: Path) -> None:
    """What did not count is missing, what did is found after the settling time."""

    async def look() -> list[str]:
        log = Journal(tmp_path / "journal", lambda: 0.0)
        stub = Stub(log, Promises(timeout=0.1, settling=0.3), random.Random(1))
        stub.behave()
        stub.answer(_post("/lookup/0", "a"))
        await asyncio.sleep(0.3)
        for identity in ("a", "b"):
            stub.answer(_post(LOOK_UPS + identity, "question")._replace(method=b"GET"))
        log.close()
        return [entry.act for entry in journal.read(tmp_path / "journal") if entry.seen is Seen.LOOK]

    assert asyncio.run(look()) == ["found", "missing"]


def test_receivers_misbehave_in_every_way(tmp_path: Path) -> None:
    """Among many requests every act is met, and a message counts exactly where its act says so."""
    told = _told(tmp_path / "journal", False, *(_post("/nothing/0", str(number)) for number in range(2_000)))
    asked = {entry.id: entry.act for entry in told if entry.seen is Seen.REQUEST}
    counted = {entry.id for entry in told if entry.seen is Seen.ACCEPTED}
    assert set(asked.values()) == set(ACTS)
    assert counted == {identity for identity, act in asked.items() if ACTS[act].when.counts}
    assert any(ACTS[act].when.counts and ACTS[act].manner is Manner.CUT for act in asked.values())
