"""Settling: what was answered becomes what is on record, in one commit, and only then is a slot free."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from duly.core.model import Outcome, Result, Signal, SignalKind
from duly.errors import StoreError
from duly.ports import Answer
from duly.providers.webhook import WebhookProvider
from duly.testing.driving import drive
from duly.testing.transport import ACCEPT, NOT_SENT, REFUSE, REJECT, SILENT, UNKNOWN
from tests.flows.scene import HOOKS, Scene, provider, scene_in

A = "https://a.example/in"
B = "https://b.example/in"


def asks_to_wait(seconds: int) -> Answer:
    """A 429 with a Retry-After."""
    return Answer(status=429, headers={"retry-after": str(seconds)})


DENIED = Answer(status=401)


# --- outcomes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "stands", "outcome", "tally"),
    [
        (ACCEPT, ("sent", "accepted"), "accepted", "sent"),
        (REJECT, ("rejected", "rejected_consent_revoked"), "rejected", "rejected"),
        (REFUSE, ("waiting", "refused_rate_limited"), "refused", "retried"),
        (NOT_SENT, ("waiting", "not_sent_connection"), "not_sent", "retried"),
        (UNKNOWN, ("uncertain", "unknown_timeout"), "unknown", "uncertain"),
    ],
)
def test_an_answer_becomes_what_is_on_record(
    scene: Scene, answer: Answer, stands: tuple[str, str], outcome: str, tally: str
) -> None:
    """The row goes where its outcome says, the attempt has it, and the slot is free."""
    (delivery,) = scene.ready("a", url=A)
    scene.transport.plan(A, answer)
    scene.send()
    assert scene.settle() == 1
    assert scene.stands(delivery) == stands
    assert scene.outcomes(delivery) == [outcome]
    assert scene.route.tally[tally] == 1
    assert scene.transport.taken == 0
    assert scene.route.idle


def test_without_an_answer_a_round_waits_and_records_nothing(scene: Scene) -> None:
    """Silence is not an outcome: the slot stays taken, and the row is being sent."""
    (delivery,) = scene.ready("a", url=A)
    scene.transport.plan(A, SILENT)
    scene.send()
    reading = scene.clock.reading()
    assert scene.settle(max_wait=0.25) == 0
    assert scene.clock.reading() == pytest.approx(reading + 0.25)
    assert scene.stands(delivery) == ("sending", None)
    assert scene.transport.taken == 1


def test_a_request_that_is_cut_is_in_doubt(scene: Scene) -> None:
    """When the transport closes, what had left and was not answered may have been accepted."""
    (delivery,) = scene.ready("a", url=A)
    scene.transport.plan(A, SILENT)
    scene.send()
    drive(scene.transport.close())
    assert scene.settle() == 1
    assert scene.stands(delivery) == ("uncertain", "unknown_connection")


def test_an_attempt_ends_when_its_answer_came(tmp_path: Path) -> None:
    """However late it is recorded, the attempt's end is the moment of the answer, in the database's time."""
    with scene_in(tmp_path) as scene:
        (delivery,) = scene.ready("a")
        scene.transport._seconds = 2.0
        began_at = scene.clock.now()
        scene.send()
        scene.clock.advance(30.0)
        scene.settle()
        (attempt,) = scene.show(delivery)["attempts"]
        assert scene.moment(attempt["finished_at"]) == began_at + timedelta(seconds=2)


def test_many_answers_are_one_commit(scene: Scene) -> None:
    """What came together is recorded together."""
    scene.ready("a", "b", "c")
    scene.send()
    assert scene.settle() == 3
    assert len(scene.unsteady.called("settle")) == 1
    assert scene.route.tally["sent"] == 3


# --- slots and durability ------------------------------------------------------------------------


def test_a_slot_is_free_only_after_the_commit(scene: Scene) -> None:
    """Until the outcome is durable, the request counts as under way."""
    scene.ready("a")
    scene.send()
    seen: list[Any] = []
    scene.unsteady.after("settle", lambda: seen.append((scene.transport.taken, len(scene.route.flights))))
    scene.settle()
    assert seen == [(1, 1)]
    assert (scene.transport.taken, scene.route.flights) == (0, {})


def test_answers_that_the_store_refuses_are_kept_until_it_takes_them(scene: Scene) -> None:
    """An answer comes once: it is neither lost nor asked for again, and its slot stays taken meanwhile."""
    (delivery,) = scene.ready("a")
    scene.send()
    scene.unsteady.refuse("settle", StoreError("permission denied"), StoreError("permission denied"))
    for _ in range(2):
        with pytest.raises(StoreError, match="permission denied"):
            scene.settle()
        assert scene.transport.taken == 1
        assert not scene.route.idle
    assert scene.settle() == 1
    assert scene.stands(delivery) == ("sent", "accepted")
    assert (scene.transport.taken, len(scene.requests())) == (0, 1)


class Puzzled(WebhookProvider):
    """A webhook provider that cannot read one answer."""

    def classify(self, answer: Answer, now: object) -> Result:
        """Fail over a 418."""
        if answer.status == 418:
            raise KeyError("teapot")
        return super().classify(answer, now)  # type: ignore[arg-type]


def test_an_answer_that_an_adapter_fails_over_is_unknown_and_costs_no_other_its_outcome(scene: Scene) -> None:
    """A bug has proved nothing about its own attempt, and says nothing about the others."""
    scene.route.provider = Puzzled(HOOKS, provider().secrets, deduplicates=True)
    (odd,) = scene.ready("odd", url=A)
    (good,) = scene.ready("good", url=B)
    scene.transport.plan(A, Answer(status=418))
    scene.send()
    assert scene.settle() == 2
    assert scene.stands(odd) == ("uncertain", "unknown")
    (attempt,) = scene.show(odd)["attempts"]
    assert attempt["outcome"] == "unknown"
    assert scene.stands(good) == ("sent", "accepted")
    assert scene.transport.taken == 0


# --- other fences --------------------------------------------------------------------------------


def late_answer(scene: Scene, answer: Answer) -> bytes:
    """A delivery whose answer comes when its lease has ended and been taken back."""
    (delivery,) = scene.ready("a", url=A)
    scene.transport._seconds = 70.0
    scene.transport.plan(A, answer)
    scene.send()
    scene.clock.advance(61.0)
    assert scene.keep_up()["uncertain"] == 1
    assert scene.stands(delivery) == ("uncertain", "unknown_worker_lost")
    scene.clock.advance(9.0)
    return delivery


def test_an_acceptance_wins_whatever_the_fence(scene: Scene) -> None:
    """That it was accepted is evidence, also from a worker that was given up."""
    delivery = late_answer(scene, ACCEPT)
    assert scene.settle() == 1
    assert scene.stands(delivery) == ("sent", "accepted")
    assert scene.outcomes(delivery) == ["accepted"]
    assert scene.route.tally["sent"] == 1


def test_a_late_refusal_is_recorded_and_moves_nothing(scene: Scene) -> None:
    """The attempt has its answer; what follows is for whoever has the row now to decide."""
    delivery = late_answer(scene, REFUSE)
    assert scene.settle() == 1
    assert scene.outcomes(delivery) == ["refused"]
    assert scene.stands(delivery)[0] == "uncertain"
    assert scene.route.tally["retried"] == 0
    assert scene.transport.taken == 0


# --- signals -------------------------------------------------------------------------------------


def said(scene: Scene) -> list[Signal]:
    """What the last settle said about endpoints."""
    signals: list[Signal] = scene.unsteady.called("settle")[-1][2]
    return signals


@pytest.mark.parametrize(
    ("answers", "kind", "seconds"),
    [
        ((asks_to_wait(5), asks_to_wait(30)), SignalKind.BLOCK, 30.0),
        ((asks_to_wait(30), asks_to_wait(5)), SignalKind.BLOCK, 30.0),
        ((asks_to_wait(30), DENIED), SignalKind.OPEN, 5.0),
        ((DENIED, asks_to_wait(30)), SignalKind.OPEN, 5.0),
        ((DENIED, DENIED, ACCEPT), SignalKind.OPEN, 5.0),
    ],
)
def test_an_endpoint_says_one_thing_and_the_strongest_wins(
    scene: Scene, answers: tuple[Answer, ...], kind: SignalKind, seconds: float
) -> None:
    """An opened circuit outweighs a block, and the longer block the shorter, in whatever order they came."""
    scene.ready(*(f"r{number}" for number in range(len(answers))), url=A)
    scene.transport.plan(A, *answers)
    scene.deliver()
    (signal,) = said(scene)
    assert (signal.kind, signal.seconds) == (kind, seconds)


def test_each_endpoint_speaks_for_itself(scene: Scene) -> None:
    """One customer's trouble is not another's."""
    scene.ready("a", url=A)
    scene.ready("b", url=B)
    scene.transport.plan(A, DENIED)
    scene.transport.plan(B, asks_to_wait(30))
    scene.deliver()
    assert sorted(signal.kind for signal in said(scene)) == [SignalKind.BLOCK, SignalKind.OPEN]
    assert len({signal.endpoint for signal in said(scene)}) == 2


def test_an_ordinary_answer_says_nothing(scene: Scene) -> None:
    """There is nothing to close where nothing was open."""
    scene.ready("a")
    scene.deliver()
    assert said(scene) == []


def test_a_probe_that_is_accepted_closes_the_circuit(scene: Scene) -> None:
    """Wrong credentials cost no delivery: one probes, and once it is accepted the others follow."""
    deliveries = scene.ready("a", "b", url=A)
    scene.transport.plan(A, DENIED, DENIED, ACCEPT)
    scene.deliver()
    assert {scene.stands(delivery) for delivery in deliveries} == {("waiting", "refused_auth")}
    for _ in range(4):
        scene.clock.advance(60.0)
        scene.keep_up()
        scene.deliver()
    assert {scene.stands(delivery) for delivery in deliveries} == {("sent", "accepted")}
    assert SignalKind.CLOSE in {signal.kind for _, _, signals in scene.unsteady.called("settle") for signal in signals}
    assert scene.value("select circuit from budget") == 0
    assert {outcome for delivery in deliveries for outcome in scene.outcomes(delivery)} == {
        Outcome.REFUSED,
        Outcome.ACCEPTED,
    }
