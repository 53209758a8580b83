"""`duly demo` shows the whole path by itself, and `duly doctor` finds what is wrong with an installation."""

from __future__ import annotations

import json
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from duly.testing.receiver import Receiver
from tests.end_to_end.doubles import beside
from tests.end_to_end.installation import DIALECTS, Installation, Run, attempts, reminder, settle_in, tell_on_both

REMINDERS: Final = 200
#: the check that must find it -> what is done to the ledger behind the program's back.
DAMAGE: Final = {
    "ledger: sent has evidence": "delete from attempt_result where delivery_id = {ok_0}",
    "ledger: accepted is sent": "update delivery set status = 'expired' where id = {ok_1}",
    "ledger: final has reason": "update delivery set reason = null where id = {ok_2}",
    "ledger: open delivery has work": "delete from work where delivery_id = {denied_0}",
    "ledger: lease has worker": "update work set state = 'leased' where delivery_id = {denied_1}",
    "ledger: work can be claimed": "delete from recipient where ref = 'of-denied-2'",
    "schema: ": "drop index work_next",
}
DELIVERY: Final = "(select d.id from delivery d join reminder r on r.id = d.reminder_id where r.caller_key = '{}')"
KEYS: Final = [f"{mood}-{number}" for mood in ("ok", "denied") for number in range(3)]


# --- demo ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Installation]:
    """A demo whose folder is kept."""
    duly = Installation(tmp_path_factory.mktemp("demo"), "sqlite:///unused.db")
    run = duly.run("demo", "--json", "--reminders", str(REMINDERS), "--keep", "kept")
    duly.settings["DULY_CONFIG"] = str(duly.folder / "kept" / "duly.toml")
    return run, duly


def test_the_demos_counts_add_up(demo: tuple[Run, Installation]) -> None:
    """The demo sends every reminder, and one repeat that its receiver drops."""
    told: dict[str, Any] = demo[0].document
    assert told["imported"]["created"] == told["tick"]["created"] == told["work"]["sent"] == REMINDERS
    assert told["receiver"] == {"requests": REMINDERS // 2 + 1, "accepted": REMINDERS // 2, "duplicates_dropped": 1}
    assert told["mails"] == REMINDERS // 2
    assert attempts(told["reconciled"]) == [("unknown", "timeout"), ("accepted", None)]


def test_the_demo_can_be_looked_at(demo: tuple[Run, Installation]) -> None:
    """What the demo kept is an installation: `status` and `doctor` work there, and the doctor is content."""
    _, duly = demo
    assert duly.states() == {"sent": REMINDERS}
    assert duly.told("doctor")["ok"] is True


def test_the_demo_refuses_a_folder_in_use(demo: tuple[Run, Installation]) -> None:
    """A folder that is not empty is not touched."""
    run = demo[1].run("demo", "--keep", "kept", code=1)
    assert (run.out, len(run.lines)) == ("", 1)
    assert "kept is not empty" in run.err


# --- doctor --------------------------------------------------------------------------------------


class Examined(NamedTuple):
    """What the doctor said about an installation in use, and again after it was damaged in every way at once."""

    healthy: Run
    damaged: Run


@pytest.fixture(scope="module")
def examinations(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Future[Examined]]:
    """Some deliveries were sent and some wait; then somebody tampers with them."""
    return tell_on_both(_examined, tmp_path_factory.mktemp("examined"))


@pytest.fixture(params=DIALECTS)
def examined(request: pytest.FixtureRequest, examinations: dict[str, Future[Examined]]) -> Examined:
    """The story on each database in turn."""
    return examinations[request.param].result()


def _examined(dialect: str, folder: Path) -> Examined:
    with beside(Receiver()) as receiver, settle_in(dialect, folder) as duly:
        duly.take(reminder(key, webhook=receiver.url(key.partition("-")[0])) for key in KEYS)
        duly.run("up", "--until-idle")
        healthy = duly.run("doctor", "--json")
        deliveries = {key.replace("-", "_"): DELIVERY.format(key) for key in KEYS}
        for damage in DAMAGE.values():
            duly.change(damage.format(**deliveries))
        return Examined(healthy, duly.run("doctor", "--json", code=1))


def test_the_doctor_is_content(examined: Examined) -> None:
    """On a ledger in use every check is in order."""
    told = examined.healthy.document
    assert told["ok"] is True
    assert [check for check in told["checks"] if check["found"]] == []
    assert len(told["checks"]) >= 10


@pytest.mark.parametrize("check", DAMAGE)
def test_the_doctor_finds_damage(examined: Examined, check: str) -> None:
    """What was done to the ledger behind the program's back is found and named, and the exit code is 1."""
    told = examined.damaged.document
    assert told["ok"] is False
    found = [(one["check"], one["found"]) for one in told["checks"] if one["check"].startswith(check)]
    assert found
    assert found[0][1] == 1


def test_the_doctor_reads_the_configuration_too(tmp_path: Path, duly_on_sqlite: Installation) -> None:
    """A secret that is not there is found before anything is sent."""
    del duly_on_sqlite.settings["HOOK_SECRET"]
    run = duly_on_sqlite.run("doctor", code=1)
    assert "HOOK_SECRET" in run.err
    assert not list(tmp_path.glob("*.rejected.jsonl"))


def test_debug_logs_are_discreet(duly_on_sqlite: Installation, receiver: Receiver) -> None:
    """With DULY_DEBUG=1, too, no address, body or secret is logged, whatever the receiver answers."""
    duly_on_sqlite.settings["DULY_DEBUG"] = "1"
    moods = ("ok", "gone", "denied", "busy", "reset")
    duly_on_sqlite.take(reminder(mood, webhook=receiver.url(mood, "prvt-path")) for mood in moods)
    run = duly_on_sqlite.run("up", "--until-idle")
    assert {json.loads(line)["level"] for line in run.lines} <= {"debug", "info", "warning"}
    assert [word for word in ("prvt", "127.0.0.1", "whsec") if word in run.err] == []
