"""Look-ups: a receiver that can be asked is asked, and what it says decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from duly.core import keys
from duly.core.model import Capabilities, Doubtful, HoldPolicy, Look, LookKind, OnDoubt
from duly.errors import StoreUnavailable
from duly.flows.reconcile import reconcile
from duly.intake import zones
from duly.ports import Answer, HttpRequest, Request
from duly.providers.webhook import WebhookProvider
from duly.testing.driving import drive
from duly.testing.transport import ACCEPT, NOT_SENT, REJECT, UNKNOWN
from tests.flows.scene import Scene, provider, scene_in

A = "https://a.example/in"
LOOK_UP_URL = "https://a.example/deliveries/{delivery}"
SETTLING = timedelta(seconds=60)
MISS = Answer(status=404)


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Scene]:
    """A scene whose receivers can be asked by our key, and drop nothing."""
    with scene_in(tmp_path, deduplicates=False, lookup_url=LOOK_UP_URL, settling=SETTLING) as scene:
        yield scene


def in_doubt(scene: Scene, *answers: Answer, name: str = "a", **more: Any) -> bytes:
    """A delivery of which an attempt may have been accepted."""
    (delivery,) = scene.ready(name, url=A, **more)
    scene.transport.plan(A, *(answers or (UNKNOWN,)))
    scene.deliver()
    scene.clock.advance(2.0)
    return delivery


def answers(scene: Scene, *planned: Answer, delivery: bytes) -> None:
    """What the receiver says when it is asked for this delivery."""
    scene.looker.plan(LOOK_UP_URL.format(delivery=keys.show(delivery)), *planned)


def look(scene: Scene, seconds: float = 61.0, policy: OnDoubt = OnDoubt.HOLD) -> Counter[str]:
    """Let the settling time pass, and reconcile."""
    scene.clock.advance(seconds)
    return +scene.reconcile(policy)


def test_a_look_waits_for_the_settling_time(asked: Scene) -> None:
    """Before it a miss would prove nothing, so nothing is asked."""
    delivery = in_doubt(asked)
    assert +asked.reconcile() == Counter()
    assert asked.looker.left == []
    assert asked.stands(delivery)[0] == "uncertain"


def test_what_is_found_was_accepted(asked: Scene) -> None:
    """No second request leaves; the attempt's result becomes accepted, with the receiver's own name for it."""
    delivery = in_doubt(asked)
    answers(asked, Answer(status=200, body=b'{"id": "m-17"}'), delivery=delivery)
    assert look(asked, 0.0) == Counter()
    assert look(asked) == Counter(sent=1)
    assert asked.stands(delivery) == ("sent", "found_by_look_up")
    assert asked.outcomes(delivery) == ["accepted"]
    assert asked.show(delivery)["request_id"] == "m-17"
    assert len(asked.requests()) == 1
    assert asked.looker.taken == 0


def test_two_misses_a_settling_time_apart_end_the_doubt(asked: Scene) -> None:
    """One proves nothing. After the second it is sent again, as if it had never been sent."""
    delivery = in_doubt(asked, UNKNOWN, ACCEPT)
    answers(asked, MISS, delivery=delivery)
    asked.reconcile()
    assert look(asked) == Counter()
    assert asked.stands(delivery)[0] == "uncertain"
    assert look(asked, 30.0) == Counter()
    assert len(asked.looker.left) == 1
    assert look(asked) == Counter(waiting=1)
    assert asked.stands(delivery) == ("waiting", "looked_up_in_vain")
    assert not asked.value("select doubt from work")
    asked.clock.advance(5.0)
    asked.keep_up()
    asked.deliver()
    assert asked.stands(delivery) == ("sent", "accepted")
    assert asked.outcomes(delivery) == ["unknown", "accepted"]


def test_a_miss_that_came_before_a_new_attempt_covers_nothing(asked: Scene) -> None:
    """Misses are counted from the latest unknown attempt."""
    delivery = in_doubt(asked, UNKNOWN, UNKNOWN)
    answers(asked, MISS, delivery=delivery)
    asked.reconcile()
    look(asked)
    look(asked)
    asked.clock.advance(5.0)
    asked.keep_up()
    asked.deliver()
    asked.clock.advance(5.0)
    asked.reconcile()
    assert look(asked) == Counter()
    assert asked.stands(delivery)[0] == "uncertain"
    assert look(asked) == Counter(waiting=1)


def test_a_receiver_that_does_not_answer_proves_nothing(asked: Scene) -> None:
    """It is asked again and again, and at last the account's policy decides."""
    delivery = in_doubt(asked, lasts=timedelta(days=3))
    answers(asked, Answer(status=503), NOT_SENT, UNKNOWN, Answer(status=302), delivery=delivery)
    asked.reconcile()
    for _ in range(6):
        assert look(asked, 600.0) <= Counter(unanswered=1)
    assert len(asked.looker.left) >= 3
    assert look(asked, 86_400.0) == Counter(held=1)
    assert asked.stands(delivery) == ("held", "look_up_gave_no_answer")
    assert len(asked.requests()) == 1


def test_cancelled_in_doubt_it_is_looked_up_and_then_cancelled(asked: Scene) -> None:
    """A cancel closes the rungs that send; once nobody has it, it ends as what it is."""
    (row,) = asked.schedule("a", url=A)
    delivery = keys.delivery_id("a-namespace-for-tests", "acme", "a", "once", "webhook")
    from duly.flows.tick import tick  # noqa: PLC0415
    from duly.testing.builders import NAMESPACE, PROVIDERS  # noqa: PLC0415

    drive(tick(asked.store, NAMESPACE, PROVIDERS, zones.known))
    asked.transport.plan(A, UNKNOWN)
    asked.deliver()
    drive(asked.store.cancel("somebody", "not needed", reminder=row.id, delivery=None))
    answers(asked, MISS, delivery=delivery)
    asked.clock.advance(2.0)
    asked.reconcile()
    look(asked)
    assert look(asked) == Counter(waiting=1)
    asked.clock.advance(5.0)
    asked.keep_up()
    asked.deliver()
    assert asked.stands(delivery) == ("cancelled", "reminder_cancelled")
    assert len(asked.requests()) == 1


@pytest.mark.parametrize("under_way", [False, True])
def test_a_delivery_that_was_called_off_is_never_sent_after_its_doubt(asked: Scene, under_way: bool) -> None:
    """Also where only this delivery was cancelled, and where its request was in the air at that moment."""
    (delivery,) = asked.ready("a", url=A)
    asked.transport.plan(A, UNKNOWN)
    asked.send()
    if under_way:
        drive(asked.store.cancel("somebody", "not needed", reminder=None, delivery=delivery))
    asked.settle()
    asked.clock.advance(2.0)
    asked.reconcile()
    if not under_way:
        drive(asked.store.cancel("somebody", "not needed", reminder=None, delivery=delivery))
    answers(asked, MISS, delivery=delivery)
    look(asked, 130.0)
    look(asked, 130.0)
    asked.clock.advance(5.0)
    asked.keep_up()
    asked.deliver()
    assert asked.stands(delivery) == ("cancelled", "called_off")
    assert len(asked.requests()) == 1


def test_a_rejected_resend_in_doubt_ends_rejected_once_nobody_has_it(asked: Scene) -> None:
    """The refusal answered its own attempt only; the look-ups answer for the other."""
    delivery = in_doubt(asked, UNKNOWN, REJECT)
    answers(asked, MISS, delivery=delivery)
    asked.change("update work set state = 'ready', granted = 1, next_at = 0")
    asked.deliver()
    assert asked.stands(delivery)[0] == "uncertain"
    look(asked)
    assert look(asked) == Counter(rejected=1)


def test_more_rows_than_slots_take_turns(asked: Scene) -> None:
    """A round asks what there are slots for; the others are asked in the next, and none is lost."""
    deliveries = asked.ready(*(f"r{number}" for number in range(10)), url=A)
    asked.transport.plan(A, UNKNOWN)
    asked.deliver()
    for delivery in deliveries:
        answers(asked, Answer(status=200), delivery=delivery)
    asked.clock.advance(2.0)
    asked.reconcile()
    rounds = [look(asked)["sent"], look(asked, 0.0)["sent"], look(asked, 0.0)["sent"]]
    assert rounds == [4, 4, 2]
    assert {asked.stands(delivery)[0] for delivery in deliveries} == {"sent"}


def test_one_receiver_that_does_not_answer_keeps_no_other_waiting(asked: Scene) -> None:
    """Addresses take turns: the only question of one comes before the second of another."""
    crowd = asked.ready(*(f"r{number}" for number in range(30)), url=A)
    (alone,) = asked.ready("alone", url="https://b.example/in")
    for url in (A, "https://b.example/in"):
        asked.transport.plan(url, UNKNOWN)
    asked.deliver()
    for delivery in crowd:
        answers(asked, UNKNOWN, delivery=delivery)
    answers(asked, Answer(status=200), delivery=alone)
    asked.clock.advance(2.0)
    asked.reconcile()
    assert look(asked)["sent"] == 1
    assert asked.stands(alone)[0] == "sent"


def test_what_needs_no_look_up_is_recorded_before_one_is_made(asked: Scene) -> None:
    """A receiver that takes its time delays no decision about others; and if the database is away, no slot is lost."""
    delivery = in_doubt(asked)
    asked.reconcile()
    asked.clock.advance(61.0)
    asked.unsteady.calls.clear()
    asked.unsteady.before("settle", lambda: _raise(StoreUnavailable("away")))
    answers(asked, Answer(status=200), delivery=delivery)
    with pytest.raises(StoreUnavailable):
        asked.reconcile()
    assert asked.looker.taken == 0
    asked.clock.advance(61.0)
    assert look(asked) == Counter(sent=1)


def test_an_answer_to_a_round_that_was_cut_is_not_heard(asked: Scene) -> None:
    """Whoever asked it has gone; the row is asked for anew."""
    delivery = in_doubt(asked)
    asked.reconcile()
    foreign = HttpRequest("https://b.example/deliveries/x", (), b"", "GET")
    drive(asked.looker.start([Request(9_999, foreign, float("inf"))]))
    answers(asked, Answer(status=200), delivery=delivery)
    assert look(asked) == Counter(sent=1)


def _raise(error: Exception) -> None:
    raise error


class Failing(WebhookProvider):
    """An adapter that fails over every answer."""

    def seen(self, row: Doubtful, by: LookKind, answer: Answer, now: datetime) -> Look:
        raise RuntimeError(row, by, answer, now)


def test_an_adapter_that_fails_over_an_answer_has_proved_nothing(tmp_path: Path) -> None:
    """The row is asked for again; no other row is harmed."""
    with scene_in(tmp_path, deduplicates=False, lookup_url=LOOK_UP_URL) as scene:
        made = provider(deduplicates=False, lookup_url=LOOK_UP_URL)
        scene.route.provider = Failing(made.name, made.secrets, deduplicates=False, lookup_url=LOOK_UP_URL)
        delivery = in_doubt(scene)
        scene.reconcile()
        assert look(scene) == Counter(unanswered=1)
        assert scene.stands(delivery)[0] == "uncertain"


class Remembering(WebhookProvider):
    """A receiver that is asked by the name that it gave, also where its answer was lost."""

    def capabilities(self, destination: str) -> Capabilities:
        return super().capabilities(destination)._replace(lookup_by_id=True, settling=SETTLING)

    def look(self, row: Doubtful, by: LookKind, now: datetime) -> HttpRequest:
        assert by is LookKind.REQUEST_ID, now
        return HttpRequest(f"https://a.example/messages/{row.request_id}", (), b"", "GET")


def test_a_name_that_came_with_an_unclear_answer_is_asked_for(tmp_path: Path) -> None:
    """Rung 0: a server's error that names the message leaves something to ask for."""
    with scene_in(tmp_path) as scene:
        made = provider()
        scene.route.provider = Remembering(made.name, made.secrets, deduplicates=True)
        delivery = in_doubt(scene)
        scene.change("update attempt_result set request_id = 'm-1'")
        scene.reconcile()
        scene.looker.plan("https://a.example/messages/m-1", Answer(status=200))
        assert look(scene) == Counter(sent=1)
        assert scene.stands(delivery)[0] == "sent"
        assert [request.content.url for request in scene.looker.left] == ["https://a.example/messages/m-1"]


# --- holds ---------------------------------------------------------------------------------------


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[Scene]:
    """A scene whose receivers promise nothing."""
    with scene_in(tmp_path, deduplicates=False) as scene:
        yield scene


def events(scene: Scene, delivery: bytes) -> list[tuple[str, str]]:
    return [(event["kind"], event["reason"]) for event in scene.show(delivery)["events"]]


def test_a_hold_raises_its_alarm_and_ends(silent: Scene) -> None:
    """It never lasts silently: an event at its alarm, and an end of its own."""
    hold = HoldPolicy(timedelta(hours=1), timedelta(days=1))
    delivery = in_doubt(silent, lasts=timedelta(days=3))
    assert +drive(reconcile(silent.desk(hold=hold))) == Counter(held=1)
    silent.clock.advance(3_599.0)
    assert +drive(reconcile(silent.desk(hold=hold))) == Counter()
    silent.clock.advance(2.0)
    assert +drive(reconcile(silent.desk(hold=hold))) == Counter(hold_alarm=1)
    assert events(silent, delivery)[-1] == ("hold_alarm", "hold_alarm")
    silent.clock.advance(23 * 3_600.0)
    assert +drive(reconcile(silent.desk(hold=hold))) == Counter(unconfirmed=1)
    assert silent.stands(delivery) == ("unconfirmed", "hold_ended")


def test_a_hold_may_end_in_a_resend(silent: Scene) -> None:
    """Where the account takes the risk, after it had the time to decide."""
    hold = HoldPolicy(timedelta(hours=1), timedelta(hours=2), OnDoubt.RESEND)
    delivery = in_doubt(silent, UNKNOWN, ACCEPT)
    drive(reconcile(silent.desk(hold=hold)))
    silent.clock.advance(3_601.0)
    drive(reconcile(silent.desk(hold=hold)))
    silent.clock.advance(3_601.0)
    assert +drive(reconcile(silent.desk(hold=hold))) == Counter(ready=1)
    silent.deliver()
    assert silent.stands(delivery) == ("sent", "accepted")


def test_a_late_answer_ends_a_hold(silent: Scene) -> None:
    """What has become known needs no decision."""
    delivery = in_doubt(silent)
    silent.reconcile()
    silent.change("update attempt_result set outcome = 'refused'")
    silent.change("update work set next_at = 0")
    assert +silent.reconcile() == Counter(uncertain=1)
    assert +silent.reconcile() == Counter(waiting=1)
    assert silent.stands(delivery) == ("waiting", "late_answer")
