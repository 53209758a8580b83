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
#: Moments as each database writes them.
MOMENTS: Final = {
    "sqlite": {"past": "1", "far": "9000000000000000", "farther": "9100000000000000"},
    "postgres": {"past": "'2020-01-01'", "far": "'2255-01-01'", "farther": "'2258-01-01'"},
}
#: the check that must find it -> what is done to the ledger behind the program's back.
DAMAGE: Final = {
    "ledger: sent has evidence": ["delete from attempt_result where delivery_id = {ok_0}"],
    "ledger: attempt before deadline": ["update delivery set deadline_at = due_at where id = {ok_0}"],
    "ledger: accepted is sent": ["update delivery set status = 'expired' where id = {ok_1}"],
    "ledger: final has reason": ["update delivery set reason = null where id = {ok_2}"],
    "ledger: no attempt under guard": [
        "insert into guard (since, opened_at, opened_by, why) values ({far}, {far}, 'ana', 'a test')",
        "update attempt set started_at = {farther} where delivery_id = {ok_3}",
    ],
    "ledger: double acceptance is told": [
        "update delivery set channel = 'email' where id = {ok_4}",
        "update attempt_result set request_id = 'one' where delivery_id = {ok_4}",
        (
            "insert into attempt_result (delivery_id, number, finished_at, outcome, request_id, stale)"
            " select delivery_id, 2, finished_at, outcome, 'another', stale"
            " from attempt_result where delivery_id = {ok_4}"
        ),
    ],
    "ledger: open delivery has work": ["delete from work where delivery_id = {denied_0}"],
    "ledger: lease has worker": ["update work set state = 'leased' where delivery_id = {denied_1}"],
    "ledger: work can be claimed": ["delete from recipient where ref = 'of-denied-2'"],
    "ledger: unknown is doubt": [
        (
            "insert into attempt_result (delivery_id, number, finished_at, outcome, stale)"
            " select id, 9, due_at, 'unknown', false from delivery where id = {denied_3}"
        ),
    ],
    "ledger: restored is doubt": ["update work set restored = true where delivery_id = {denied_4}"],
    "ledger: folded has summary": ["update work set state = 'folded' where delivery_id = {denied_10}"],
    "ledger: held has an end": ["update work set state = 'held', next_at = {far} where delivery_id = {denied_5}"],
    "ledger: doubt is not finished": [
        "delete from work where delivery_id = {denied_6}",
        "update delivery set status = 'dead', reason = 'x', finished_at = due_at where id = {denied_6}",
        (
            "insert into attempt (delivery_id, number, fence, started_at, worker, provider, payload_hash)"
            " select {denied_6}, 9, fence, started_at, worker, provider, payload_hash"
            " from attempt where delivery_id = {ok_2}"
        ),
    ],
    "ledger: consent reaches admission": [
        (
            "insert into consent (account_id, contact_id, scope, kind, code, source, reason, actor, recorded_at)"
            " select account_id, contact_id, 'marketing', 'opt_out', 'opted_out', 'x', 'x', 'x', {past}"
            " from delivery where id = {ok_0}"
        ),
    ],
    "work: guard open": [],  # since "no attempt under guard"
    "work: lease not taken back": [
        "update work set state = 'leased', worker = 'gone', lease_until = {past} where delivery_id = {denied_7}"
    ],
    "work: hold past its alarm": ["update work set state = 'held', next_at = {past} where delivery_id = {denied_8}"],
    "work: provider not configured": ["update work set provider = 'gone' where delivery_id = {denied_9}"],
    "schema: ": ["drop index work_next"],
}
#: What only a bug in the middle of a transaction could break.
UNBROKEN: Final = {
    "ledger: begun has attempt",
    "ledger: final delivery has no work",
    "ledger: work has delivery",
}
DELIVERY: Final = "(select d.id from delivery d join reminder r on r.id = d.reminder_id where r.caller_key = '{}')"
KEYS: Final = [f"{mood}-{number}" for mood, count in (("ok", 5), ("denied", 11)) for number in range(count)]


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
        names = MOMENTS[dialect] | {key.replace("-", "_"): DELIVERY.format(key) for key in KEYS}
        for statement in (statement for damage in DAMAGE.values() for statement in damage):
            duly.change(statement.format(**names))
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
    found = [one for one in told["checks"] if one["check"].startswith(check)]
    assert [one["found"] for one in found] == [1]
    assert found[0]["advice"]


def test_the_doctor_finds_nothing_else(examined: Examined) -> None:
    """Each damage is found by its own check alone."""
    found = [one["check"] for one in examined.damaged.document["checks"] if one["found"]]
    assert [check for check in found if not check.startswith(tuple(DAMAGE))] == []


def test_every_check_of_the_ledger_has_its_damage(examined: Examined) -> None:
    """A check that no test can break may check nothing."""
    checks = {one["check"] for one in examined.healthy.document["checks"]}
    broken = {check for check in checks if check.startswith(tuple(DAMAGE))}
    assert checks - broken == {"configuration, secrets and templates", "schema", *UNBROKEN}


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
