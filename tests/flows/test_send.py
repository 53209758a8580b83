"""Sending: from a claimed row to a request in the air, or back, and never a slot lost on the way."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from duly.content import Template
from duly.core import keys
from duly.core.caps import Cap
from duly.core.model import Claimed, Content, Frozen
from duly.errors import StoreError, StoreUnavailable
from duly.flows.route import BATCH_ROWS_MAX, Lease, give_back
from duly.ports import Answer, Batch, Claims, HttpRequest
from duly.providers.webhook import WebhookProvider
from duly.testing.driving import drive
from duly.testing.transport import ACCEPT, REFUSE, SILENT, UNKNOWN
from tests.flows.scene import HOOKS, TEMPLATES, Scene, provider, scene_in

A = "https://a.example/in"
B = "https://b.example/in"
TRUST_SECONDS = 48.0  # a lease of 60 s, less a timeout of 10 s and a margin of 2 s

NOTHING_UNDER_WAY: Final[Any] = (0, {}, {})


def under_way(scene: Scene) -> tuple[int, dict[bytes, Lease], dict[int, object]]:
    """Slots that are taken, rows that have one, requests that are in the air."""
    return scene.transport.taken, scene.route.seated, dict(scene.route.flights)


# --- the main path -------------------------------------------------------------------------------


def test_a_ready_delivery_is_sent_once_under_its_key(scene: Scene) -> None:
    """One request leaves, its attempt is on record before it does, and its slot stays taken."""
    (delivery,) = scene.ready("a")
    seen: list[object] = []
    scene.unsteady.after("begin", lambda: seen.extend([scene.stands(delivery), len(scene.transport.left)]))
    assert scene.send() == 1
    assert seen == [("sending", None), 0]
    assert scene.keys_sent() == [keys.show(delivery)]
    assert scene.transport.taken == 1
    assert scene.route.tally["claimed"] == 1
    assert not scene.route.idle
    assert scene.send() == 0


class HandedTwice:
    """ports.Claims of a queue that hands every claim over twice."""

    def __init__(self, claims: Claims) -> None:
        self._claims = claims
        self._again: Batch | None = None

    async def take(self, limit: int, max_wait: float) -> Batch | None:
        """What was taken before, else something new."""
        again, self._again = self._again, None
        if again is None:
            self._again = await self._claims.take(limit, max_wait)
        return again or self._again


def test_a_claim_that_is_handed_over_twice_is_sent_once(scene: Scene) -> None:
    """The copy is dropped while the row is in the air, and nothing is given back whose request has left."""
    deliveries = scene.ready("a", "b")
    scene.route.claims = HandedTwice(scene.claims)
    assert [scene.send(), scene.send()] == [2, 0]
    assert (len(scene.keys_sent()), scene.transport.taken) == (2, 2)
    assert scene.route.tally["duplicates_suppressed"] == 2
    scene.settle()
    assert [scene.outcomes(delivery) for delivery in deliveries] == [["accepted"]] * 2


def test_nothing_ready_is_waited_for(scene: Scene) -> None:
    """Without work a round waits as long as it may, and starts nothing."""
    reading = scene.clock.reading()
    assert scene.send(max_wait=0.25) == 0
    assert scene.clock.reading() == pytest.approx(reading + 0.25)
    assert scene.route.idle


def test_without_a_free_slot_nothing_is_claimed(tmp_path: Path) -> None:
    """What cannot be sent now stays with everybody else's work."""
    with scene_in(tmp_path, capacity=1) as scene:
        scene.ready("a", "b")
        scene.transport.plan("https://app.example.com/hooks", SILENT)
        scene.send()
        scene.claims.taken.clear()
        assert scene.send() == 0
        assert scene.claims.taken == []


# --- admission -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("meanwhile", "stands", "tally"),
    [
        ("update reminder set status = 'cancelled'", ("cancelled", "reminder_cancelled"), "cancelled"),
        ("update contact set suppressed = 'opted_out'", ("suppressed", "opted_out"), "suppressed"),
        ("update account set paused = 1", ("waiting", "account_paused"), "waiting"),
        ("update reminder set status = 'paused'", ("waiting", "reminder_paused"), "waiting"),
    ],
)
def test_what_admission_stops_goes_elsewhere(scene: Scene, meanwhile: str, stands: tuple[str, str], tally: str) -> None:
    """The row goes where the reason says, nothing leaves, and its slot is free again."""
    (delivery,) = scene.ready("a")
    scene.change(meanwhile)
    assert scene.send() == 0
    assert scene.stands(delivery) == stands
    assert scene.route.tally[tally] == 1
    assert (scene.requests(), under_way(scene)) == ([], NOTHING_UNDER_WAY)
    assert scene.show(delivery)["attempts"] == []


def test_a_row_past_its_deadline_expires(scene: Scene) -> None:
    """Too late to be useful is not sent."""
    (delivery,) = scene.ready("a", lasts=timedelta(seconds=30))
    scene.clock.advance(30.0)
    assert scene.send() == 0
    assert scene.stands(delivery) == ("expired", "deadline_passed")
    assert under_way(scene) == NOTHING_UNDER_WAY


def test_a_blocked_endpoint_puts_its_rows_off_until_it_opens(scene: Scene) -> None:
    """A Retry-After that is on record holds the next row back, until just then."""
    scene.transport.plan(A, Answer(status=429, headers={"retry-after": "30"}))
    scene.ready("first", url=A)
    scene.deliver()
    (delivery,) = scene.ready("second", url=A)
    scene.send()
    assert scene.stands(delivery) == ("waiting", "retry_after")
    assert scene.moment(scene.show(delivery)["next_at"]) > scene.clock.now() + timedelta(seconds=29)
    assert len(scene.requests()) == 1


def test_what_cannot_be_rendered_is_rejected(scene: Scene) -> None:
    """A row whose data is not enough for its template is an end, with the reason that views show; others go on."""
    (bad,) = scene.ready("bad", template="unit")
    (good,) = scene.ready("good", template="unit", data={"unit": "4B"})
    assert scene.send() == 1
    state, reason = scene.stands(bad)
    assert state == "rejected"
    assert reason is not None
    assert reason.startswith("cannot_be_rendered: ")
    assert "unit" in reason
    assert scene.keys_sent() == [keys.show(good)]


class Clumsy(WebhookProvider):
    """A webhook provider with bugs: it stumbles over one account, where it is told to."""

    stumbles_at = ""

    def _stumble(self, at: str) -> None:
        if self.stumbles_at == at:
            raise ZeroDivisionError(at)

    def freeze(self, row: Claimed, content: Content, now: object) -> Frozen:
        """Stumble over the account `clumsy`."""
        if row.account == "clumsy":
            self._stumble("freeze")
        return super().freeze(row, content, now)  # type: ignore[arg-type]

    def request(self, frozen: Frozen, attempt: object) -> HttpRequest:
        """Stumble over every request."""
        self._stumble("request")
        return super().request(frozen, attempt)  # type: ignore[arg-type]


def clumsy(scene: Scene, at: str) -> Clumsy:
    """Give the scene's route a provider with a bug."""
    sound = provider()
    one = Clumsy(HOOKS, sound.secrets, deduplicates=True)
    one.stumbles_at = at
    scene.route.provider = one
    return one


def test_a_row_that_an_adapter_fails_over_waits_and_costs_no_other_row_anything(scene: Scene) -> None:
    """A bug over one account's row puts that row off; the other accounts' are sent."""
    clumsy(scene, "freeze")
    (bad,) = scene.ready("bad", account="clumsy")
    (good,) = scene.ready("good")
    assert scene.send() == 1
    assert scene.stands(bad) == ("waiting", "adapter_failed: ZeroDivisionError")
    assert scene.moment(scene.show(bad)["next_at"]) == scene.clock.now() + timedelta(seconds=60)
    assert scene.keys_sent() == [keys.show(good)]


# --- begin ---------------------------------------------------------------------------------------


def test_a_begin_that_loses_its_reply_sends_nothing(scene: Scene) -> None:
    """It did begin, and nobody told us: the attempt is settled as not sent, and the row waits."""
    (delivery,) = scene.ready("a")
    scene.unsteady.lose("begin")
    assert scene.send() == 0
    assert scene.requests() == []
    assert under_way(scene) == NOTHING_UNDER_WAY
    assert scene.stands(delivery) == ("waiting", "begin_unconfirmed")
    assert scene.outcomes(delivery) == ["not_sent"]


def test_a_begin_that_did_not_happen_costs_no_attempt(scene: Scene) -> None:
    """It did not begin, and nobody told us: the row is ready again, as if it had never been claimed."""
    (delivery,) = scene.ready("a")
    scene.unsteady.refuse("begin", StoreUnavailable("the database did not answer"))
    assert scene.send() == 0
    assert scene.requests() == []
    assert scene.stands(delivery) == ("ready", None)
    assert scene.outcomes(delivery) == []
    scene.deliver()
    assert scene.stands(delivery) == ("sent", "accepted")


def test_a_store_that_stays_away_is_the_callers_to_wait_for(scene: Scene) -> None:
    """If the rows cannot be given back either, that is told, the slots are free, and the leases will end."""
    scene.ready("a")
    scene.unsteady.before("begin", lambda: setattr(scene.unsteady, "away", True))
    scene.unsteady.lose("begin")
    with pytest.raises(StoreUnavailable):
        scene.send()
    assert under_way(scene) == NOTHING_UNDER_WAY
    assert scene.requests() == []


@pytest.mark.parametrize("method", ["decide", "begin"])
def test_a_store_that_refuses_costs_no_slot(scene: Scene, method: str) -> None:
    """Whatever the store will not take, the rows go back, and the slots are free."""
    (good,) = scene.ready("good", template="unit", data={"unit": "4B"})
    (bad,) = scene.ready("bad", template="unit")
    scene.unsteady.refuse(method, StoreError("permission denied"))
    with pytest.raises(StoreError, match="permission denied"):
        scene.send()
    assert scene.requests() == []
    assert under_way(scene) == NOTHING_UNDER_WAY
    assert scene.stands(good) == ("ready", None)
    assert scene.stands(bad)[0] == ("ready" if method == "decide" else "rejected")


def test_a_bug_between_begin_and_send_costs_no_slot_and_is_on_record(scene: Scene) -> None:
    """What has begun and cannot be handed over was not sent, and its attempt says so."""
    one = clumsy(scene, "request")
    (delivery,) = scene.ready("a")
    with pytest.raises(ZeroDivisionError):
        scene.send()
    assert under_way(scene) == NOTHING_UNDER_WAY
    assert scene.outcomes(delivery) == ["not_sent"]
    one.stumbles_at = ""
    scene.keep_up()
    scene.deliver()
    assert scene.outcomes(delivery) == ["not_sent", "accepted"]


def test_rows_without_a_token_wait_and_free_their_slots(tmp_path: Path) -> None:
    """The budget lets one row begin; the others wait in the ledger, each until its own moment."""
    with scene_in(tmp_path, rate_per_second=1.0) as scene:
        deliveries = scene.ready("a", "b", "c")
        assert scene.send() == 1
        assert scene.transport.taken == 1
        states = sorted(scene.stands(delivery) for delivery in deliveries)
        assert states == [("sending", None), ("waiting", "rate_limited"), ("waiting", "rate_limited")]
        assert scene.unsteady.called("abandon") == []
        assert scene.route.tally["duplicates_suppressed"] == 0
        moments = sorted(scene.show(d)["next_at"] for d in deliveries if scene.stands(d)[0] == "waiting")
        waits = [scene.moment(moment) - scene.clock.now() for moment in moments]
        assert waits == [timedelta(seconds=1), timedelta(seconds=2)]


@pytest.mark.parametrize("table", ["account", "reminder", "recipient", "contact"])
def test_what_changed_after_the_claim_does_not_begin(scene: Scene, table: str) -> None:
    """A change that commits before begin wins: nothing leaves, the row is ready again, and goes with what is now so."""
    (delivery,) = scene.ready("a")
    scene.unsteady.before("begin", lambda: scene.change(f"update {table} set revision = revision + 1"))  # noqa: S608
    assert scene.send() == 0
    assert scene.requests() == []
    assert under_way(scene) == NOTHING_UNDER_WAY
    assert scene.stands(delivery) == ("ready", None)
    assert scene.route.tally["duplicates_suppressed"] == 1
    scene.deliver()
    assert scene.stands(delivery) == ("sent", "accepted")
    assert scene.outcomes(delivery) == ["accepted"]


def test_a_cancel_that_commits_before_begin_always_wins(scene: Scene) -> None:
    """However late it comes, nothing leaves."""
    (delivery,) = scene.ready("a")
    (row,) = scene.schedule("b")
    reminder = keys.reminder_id("a-namespace-for-tests", row.account, "a")
    cancel = scene.store.cancel("somebody", "not needed", reminder=reminder, delivery=None)
    scene.unsteady.before("begin", lambda: drive(cancel))
    assert scene.send() == 0
    assert scene.requests() == []
    assert scene.stands(delivery)[0] == "cancelled"
    assert under_way(scene) == NOTHING_UNDER_WAY


def test_more_rows_than_the_store_takes_at_once_begin_in_parts(tmp_path: Path) -> None:
    """However many slots come free together, no begin holds more than 500 rows."""
    with scene_in(tmp_path, capacity=1_000, per_host=1_000) as scene:
        scene.ready(*(f"r{number}" for number in range(700)))
        for _ in range(2):
            batch = drive(scene.claims.take(BATCH_ROWS_MAX, 0.0))
            assert batch is not None
            scene.route.held_back.extend(Lease(row, batch.asked_at, batch.now) for row in batch.rows)
        assert scene.send() == 700
        assert [len(rows) for _, _, rows in scene.unsteady.called("begin")] == [500, 200]
        assert scene.transport.taken == len(scene.route.flights) == 700


# --- how long it holds ---------------------------------------------------------------------------


def start_before(scene: Scene) -> float:
    """The reading before which the only request had to start, counted from the beginning."""
    (request,) = scene.transport.left
    return request.start_before - 1_000.0


def test_a_request_must_start_while_the_lease_is_trusted(scene: Scene) -> None:
    """Trust is counted from before the claim, and leaves room for the provider's timeout and a margin."""
    scene.ready("a")
    scene.send()
    assert start_before(scene) == pytest.approx(TRUST_SECONDS)


def test_a_request_must_start_before_the_deadline(scene: Scene) -> None:
    """A deadline within the lease is the earlier end."""
    scene.ready("a", due_in=-1.0, lasts=timedelta(seconds=21))
    scene.send()
    assert start_before(scene) == pytest.approx(20.0)


def test_a_repeat_must_start_while_its_key_is_known(tmp_path: Path) -> None:
    """In doubt the key window, less its margin, is the earliest end."""
    with scene_in(tmp_path, key_window=timedelta(seconds=90)) as scene:
        scene.ready("a", url=A)
        scene.transport.plan(A, UNKNOWN, ACCEPT)
        scene.deliver()
        scene.clock.advance(5.0)
        scene.reconcile()
        scene.transport.left.clear()
        scene.send()
        assert start_before(scene) == pytest.approx(30.0)


def test_a_lease_that_ran_out_before_begin_is_given_back(scene: Scene) -> None:
    """A database that took too long over the rest leaves nothing to begin with."""
    (delivery,) = scene.ready("a")
    scene.unsteady.before("begin", lambda: scene.clock.advance(TRUST_SECONDS))
    assert scene.send() == 0
    assert scene.requests() == []
    assert scene.stands(delivery) == ("ready", None)


def test_a_claim_that_took_too_long_is_given_back(scene: Scene) -> None:
    """Admission refuses a lease that is used up; no attempt is counted."""
    (delivery,) = scene.ready("a")
    scene.unsteady.after("claim", lambda: None)
    scene.unsteady.after("claim", lambda: scene.clock.advance(TRUST_SECONDS))
    assert scene.send() == 0
    assert scene.stands(delivery) == ("ready", None)
    assert scene.unsteady.called("begin") == []
    assert under_way(scene) == NOTHING_UNDER_WAY


def test_a_request_that_comes_too_late_to_start_was_not_sent(scene: Scene) -> None:
    """Between begin and the first byte the transport asks once more, and the ledger says that nothing left."""
    (delivery,) = scene.ready("a")
    scene.unsteady.after("begin", lambda: scene.clock.advance(TRUST_SECONDS))
    assert scene.send() == 1
    scene.settle()
    assert scene.requests() == []
    assert scene.stands(delivery) == ("waiting", "not_sent_too_late")


# --- rows that are held back ---------------------------------------------------------------------


def test_rows_whose_host_is_full_are_held_back_in_order(tmp_path: Path) -> None:
    """They stay leased and do not begin, and go one by one as slots come free."""
    with scene_in(tmp_path, per_host=1) as scene:
        for number in range(3):
            scene.ready(f"r{number}", url=A, due_in=-10.0 + number)
        assert scene.send() == 1
        assert scene.send() == 0
        assert len(scene.route.held_back) == 2
        assert not scene.route.idle
        assert [scene.value("select count(*) from attempt"), scene.transport.taken] == [1, 1]
        for _ in range(2):
            scene.settle()
            assert scene.send() == 1
        scene.settle()
        order = [scene.show(keys.parse(key) or b"")["reminder"] for key in scene.keys_sent()]
        assert order == ["r0", "r1", "r2"]
        assert scene.route.tally["sent"] == 3


def test_a_full_host_does_not_keep_another_from_being_served(tmp_path: Path) -> None:
    """While rows of one host are held back, those of another are claimed and sent."""
    with scene_in(tmp_path, per_host=1) as scene:
        scene.transport.plan(A, SILENT)
        scene.ready(*(f"a{number}" for number in range(5)), url=A)
        scene.send()
        (delivery,) = scene.ready("b", url=B)
        scene.clock.advance(0.1)
        assert scene.send() == 1
        assert scene.keys_sent()[-1] == keys.show(delivery)
        assert len(scene.route.held_back) == 4
        drive(scene.transport.close())
        scene.settle()


def test_a_wait_for_a_seat_ends_when_a_slot_is_freed(tmp_path: Path) -> None:
    """Held-back rows are looked at again soon, whether or not more can be claimed."""
    with scene_in(tmp_path, per_host=1) as scene:
        scene.transport.plan(A, SILENT)
        scene.ready("a", "b", url=A)
        scene.send()
        reading = scene.clock.reading()
        scene.send(max_wait=10.0)
        assert scene.clock.reading() - reading < 0.02
        drive(scene.transport.close())
        scene.settle()


def full_of_one_host(scene: Scene) -> None:
    """Let the route hold back as many rows of one silent host as it may."""
    scene.transport.plan(A, SILENT)
    scene.ready(*(f"a{number}" for number in range(1_100)), url=A)
    for _ in range(4):
        scene.send()
    assert len(scene.route.held_back) == 1_000


def test_a_host_that_fills_the_worker_has_its_rows_put_off(tmp_path: Path) -> None:
    """After a second the oldest wait in the ledger, and rows of other hosts come forward."""
    with scene_in(tmp_path, capacity=4, per_host=1) as scene:
        full_of_one_host(scene)
        (delivery,) = scene.ready("b", url=B)
        scene.send()
        assert scene.value("select count(*) from work where reason = 'endpoint_busy'") == 0
        scene.clock.advance(1.0)
        scene.send()
        assert scene.value("select count(*) from work where state = 'waiting' and reason = 'endpoint_busy'") == 500
        scene.clock.advance(0.1)
        scene.send()
        assert scene.keys_sent()[-1] == keys.show(delivery)
        moment = (
            scene.value("select max(next_at) from work where reason = 'endpoint_busy'") - scene.clock.microseconds()
        )
        assert 0 < moment <= 1_000_000
        drive(scene.transport.close())
        scene.settle()


def test_a_worker_too_full_for_a_worthwhile_claim_puts_rows_off_as_well(tmp_path: Path) -> None:
    """It need not be full to the last row: once no claim is worth its while, the busy host's rows make room."""
    with scene_in(tmp_path, capacity=512, per_host=1) as scene:
        scene.transport.plan(A, SILENT)
        scene.ready(*(f"a{number}" for number in range(900)), url=A)
        for _ in range(4):
            scene.send()
        (delivery,) = scene.ready("b", url=B)
        scene.clock.advance(1.0)
        for _ in range(3):
            scene.send()
            scene.clock.advance(0.1)
        assert scene.keys_sent()[-1] == keys.show(delivery)
        drive(scene.transport.close())
        scene.settle()


def test_rows_held_back_beyond_trust_are_given_back(tmp_path: Path) -> None:
    """A row that waited for its host until its lease was no longer trusted does not begin under it."""
    with scene_in(tmp_path, per_host=1) as scene:
        scene.transport.plan(A, SILENT)
        scene.ready("a", "b", "c", url=A)
        scene.send()
        scene.clock.advance(TRUST_SECONDS - 1.0)
        scene.send()
        assert scene.unsteady.called("abandon")[1:] == []
        scene.clock.advance(1.0)
        scene.send()
        given_back = [row for _, rows in scene.unsteady.called("abandon") for row in rows]
        assert sorted(fence for _, fence in given_back) == [1, 1]
        assert {lease.row.fence for lease in scene.route.held_back} == {2}
        assert len(scene.requests()) == 1
        drive(scene.transport.close())
        scene.settle()


def test_many_rows_are_given_back_in_parts(scene: Scene) -> None:
    """No call of the store holds more than 500 rows, and all of them are ready again."""
    scene.ready(*(f"r{number}" for number in range(501)))
    leases = []
    while (batch := drive(scene.claims.take(BATCH_ROWS_MAX, 0.1))) is not None:
        leases += [Lease(row, batch.asked_at, batch.now) for row in batch.rows]
    drive(give_back(scene.route, leases))
    assert [len(rows) for _, rows in scene.unsteady.called("abandon")] == [500, 1]
    assert scene.value("select count(*) from work where state = 'ready'") == 501


# --- the bytes -----------------------------------------------------------------------------------

MOVED = "update recipient set revision = revision + 1, name = 'Bo'"


def test_in_doubt_the_frozen_bytes_are_repeated_whatever_has_changed(scene: Scene) -> None:
    """A repeat must be the same request to the receiver: same key, same place, same bytes."""
    (delivery,) = scene.ready("a", url=A)
    scene.transport.plan(A, UNKNOWN, ACCEPT)
    scene.deliver()
    scene.change(MOVED)
    scene.change(f"update contact set revision = revision + 1, address = '{B}'")  # noqa: S608
    scene.clock.advance(5.0)
    scene.reconcile()
    scene.deliver()
    first, second = scene.requests()
    assert (first.url, first.body) == (second.url, second.body)
    assert scene.keys_sent()[0] == scene.keys_sent()[1]
    assert b"Ana" in second.body
    assert scene.value("select count(*) from frozen") == 1
    assert scene.outcomes(delivery) == ["unknown", "accepted"]
    assert scene.stands(delivery) == ("sent", "accepted")


def test_without_doubt_a_change_renders_anew(scene: Scene) -> None:
    """After a definite refusal, the next attempt goes to whom and where it would go now."""
    scene.ready("a", url=A)
    scene.transport.plan(A, REFUSE)
    scene.deliver()
    scene.change(MOVED)
    scene.change(f"update contact set revision = revision + 1, address = '{B}'")  # noqa: S608
    scene.clock.advance(5.0)
    scene.keep_up()
    scene.deliver()
    first, second = scene.requests()
    assert (first.url, second.url) == (A, B)
    assert b"Ana" in first.body
    assert b"Bo" in second.body
    assert scene.value("select count(*) from frozen") == 2


def test_without_a_change_the_same_bytes_are_used_again(scene: Scene) -> None:
    """What nothing has changed in is not rendered twice."""
    scene.ready("a", url=A)
    scene.transport.plan(A, REFUSE)
    scene.deliver()
    scene.clock.advance(5.0)
    scene.keep_up()
    scene.deliver()
    first, second = scene.requests()
    assert first.body == second.body
    assert scene.value("select count(*) from frozen") == 1
    assert scene.value("select count(distinct payload_hash) from attempt") == 1


# --- caps ----------------------------------------------------------------------------------------


def test_a_cap_puts_off_what_comes_too_often(scene: Scene) -> None:
    """The route's cap travels with each begin: what has no room waits, keeps no slot, and is sent when it has some."""
    asked: list[tuple[str, str]] = []

    def cap(account: str, purpose: str) -> Cap | None:
        asked.append((account, purpose))
        return Cap(1, timedelta(hours=2))

    scene.route.caps = cap
    first, second = scene.ready("a", "b", purpose="visit")
    assert scene.send() == 1
    scene.settle()
    assert asked == [("acme", "visit")] * 2
    sent, late = (first, second) if scene.stands(first)[0] == "sent" else (second, first)
    assert scene.stands(sent) == ("sent", "accepted")
    assert scene.stands(late) == ("waiting", "frequency_cap")
    assert under_way(scene) == NOTHING_UNDER_WAY
    scene.clock.advance(timedelta(hours=2).total_seconds() + 1)
    scene.keep_up()
    scene.deliver()
    assert scene.stands(late) == ("sent", "accepted")


# --- versions of templates -----------------------------------------------------------------------


def test_a_version_that_is_not_at_hand_is_waited_for(scene: Scene) -> None:
    """A row is never rendered by another version than the one it was promised by: it waits, and is looked at again."""
    old = Template("note", "", "hello of old")
    (delivery,) = scene.ready("a", template_version=old.version)
    assert scene.send() == 0
    assert scene.stands(delivery) == ("waiting", "template_version_unknown")
    assert under_way(scene) == NOTHING_UNDER_WAY
    scene.route.templates = TEMPLATES.with_versions([old])
    scene.clock.advance(60.0)
    scene.keep_up()
    scene.deliver()
    assert scene.stands(delivery) == ("sent", "accepted")
    assert scene.show(delivery)["template_version"] == old.version
