"""Cases of the views: the words of the surface, ids as they are shown, times in UTC ending in Z."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest

from duly.core import keys
from duly.core.model import Channel, FailureClass, Lane, Outcome, Result, Signal, SignalKind
from duly.core.states import State
from duly.errors import NotFound
from duly.ports import Filters
from duly.testing.builders import NAMESPACE, PROVIDERS
from tests.stores.conformance import case
from tests.stores.conformance.scene import HOOKS, Scene, delivery_id

LINE = ["id", "account", "reminder", "occurrence", "channel", "status", "reason", "attempts", "due_at"]
DELIVERY = [
    *("id", "account", "reminder", "occurrence", "channel", "provider", "template", "template_version", "status"),
    *("reason", "next_action", "next_at", "due_at", "deadline_at", "lane", "idempotency_key", "payload_hash"),
    *("request_id", "lease_expires_at", "recipient", "restored", "zone", "late_from", "summary", "purpose"),
    *("submitted_at", "revised_at", "since", "finished_at", "recipient_zone", "obstacle"),
    *("folded", "attempts", "receipts", "events", "consent"),
]
ATTEMPT = [
    *("number", "started_at", "finished_at", "outcome", "class", "http_status", "request_id", "payload_hash"),
    *("retry_after", "response_excerpt", "worker", "detail", "covered"),
]
FORGOTTEN = [
    *("provider", "endpoint", "account", "state", "granted", "closed", "deadline_passed", "age_seconds", "count"),
]
EVENT = ["at", "kind", "from", "to", "actor", "reason", "evidence"]
REMINDER = [
    *("id", "account", "idempotency_key", "status", "schedule", "zone", "template", "template_version", "next_due_at"),
    *("next_local", "next_label", "missed", "group", "recipient_zone", "purpose", "deadline", "late", "late_until"),
    *("left_out", "obstacles", "deliveries", "events"),
]
MADE = ("held", "uncertain", "waiting", "sent", "rejected", "sending", "leased", "ready")
RFC3339_UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def moments(document: Any) -> list[str]:
    """Every moment in a document, wherever it stands."""
    if isinstance(document, list):
        return [moment for item in document for moment in moments(item)]
    if not isinstance(document, dict):
        return []
    own = [value for word, value in document.items() if (word == "at" or word.endswith(("_at", "_until"))) and value]
    return own + [moment for value in document.values() for moment in moments(value)]


def plain(document: Any) -> Any:
    """The document as JSON: it must be plain data, and its moments RFC 3339 in UTC."""
    found = moments(document)
    assert all(RFC3339_UTC.fullmatch(moment) for moment in found), found
    return json.loads(json.dumps(document))


# --- list ----------------------------------------------------------------------------------------


@case
async def the_list_has_its_words(scene: Scene) -> None:
    """Each line of the list has the words of the surface, in their order."""
    (delivery,) = await scene.ready("r")
    (line,) = await scene.views.deliveries(Filters())
    assert list(plain(line)) == LINE
    assert (line["id"], line["account"]) == (keys.show(delivery), "acme")
    assert (line["reminder"], line["occurrence"]) == ("r", "once")
    assert (line["channel"], line["status"], line["reason"], line["attempts"]) == ("webhook", "ready", None, 0)
    assert line["due_at"] == plain(await scene.show(delivery))["due_at"]


@case
async def the_list_is_newest_first_and_bounded(scene: Scene) -> None:
    """The list comes newest first and is no longer than asked for."""
    for key in ("r1", "r2", "r3"):
        await scene.ready(key)
        await scene.ledger.pass_time(1)
    assert [line["reminder"] for line in await scene.views.deliveries(Filters())] == ["r3", "r2", "r1"]
    assert [line["reminder"] for line in await scene.views.deliveries(Filters(limit=2))] == ["r3", "r2"]


@case
async def the_list_is_narrowed_by_state(scene: Scene) -> None:
    """Every state can be asked for, and brings the deliveries that stand there."""
    await scene.held("held")
    await scene.uncertain("uncertain")
    await scene.waiting("waiting", wait=timedelta(hours=1))
    await scene.settle(await scene.sending("sent"), Outcome.ACCEPTED)
    await scene.settle(await scene.sending("rejected"), Outcome.REJECTED)
    await scene.sending("sending")
    await scene.leased("leased")
    await scene.ready("ready")
    for state in State:
        found = [line["reminder"] for line in await scene.views.deliveries(Filters(status=state))]
        assert found == ([state] if state in MADE else [])
    assert len(await scene.views.deliveries(Filters())) == len(MADE)


@case
async def the_list_is_narrowed_by_account_and_channel(scene: Scene) -> None:
    """An account sees its own deliveries only, of one channel if asked for, in open and final states."""
    both = (Channel.EMAIL, Channel.WEBHOOK)
    await scene.ready("r", account="acme", channels=both)
    await scene.ready("r", account="harbour-lofts", channels=both)
    for status in (None, "ready"):
        lines = await scene.views.deliveries(Filters(status=status, account="acme"))
        assert [line["account"] for line in lines] == ["acme", "acme"]
        lines = await scene.views.deliveries(Filters(status=status, account="acme", channel="email"))
        assert [(line["account"], line["channel"]) for line in lines] == [("acme", "email")]
        assert await scene.views.deliveries(Filters(status=status, account="nobody")) == []
        assert await scene.views.deliveries(Filters(status=status, channel="sms")) == []


# --- status --------------------------------------------------------------------------------------


@case
async def the_status_counts_states(scene: Scene) -> None:
    """Each state is counted, with the age of its oldest row where somebody must move it on."""
    await scene.settle(await scene.sending("sent"), Outcome.ACCEPTED)
    await scene.sending("sending")
    await scene.ready("r1")
    await scene.ledger.pass_time(120)
    await scene.ready("r2")
    states = plain(await scene.views.status())["states"]
    assert {state: one["count"] for state, one in states.items()} == {"sent": 1, "sending": 1, "ready": 2}
    assert 120 <= states["ready"]["oldest_age_seconds"] < 180
    assert all(set(one) == {"count", "oldest_age_seconds"} for one in states.values())


@case
async def the_status_of_nothing_is_empty(scene: Scene) -> None:
    """An empty ledger has a status too."""
    assert plain(await scene.views.status()) == {
        "states": {},
        "lanes": {},
        "failing": [],
        "budgets": [],
        "reminders": {"count": 0, "next_due_at": None},
        "guard": None,
    }


@case
async def the_status_tells_what_failed_and_waits(scene: Scene) -> None:
    """What was attempted and is not decided is counted by provider, state and reason; what was not is not."""
    for key in ("a", "b"):
        await scene.settle(
            await scene.sending(key), Outcome.NOT_SENT, result=Result(Outcome.NOT_SENT, FailureClass.CONNECTION)
        )
    await scene.uncertain("c")
    await scene.settle(await scene.sending("sent"), Outcome.ACCEPTED)
    await scene.decide(await scene.leased("quiet"), State.LEASED, State.WAITING, reason="quiet_hours")
    failing = plain(await scene.views.status())["failing"]
    assert [(one["provider"], one["status"], one["count"]) for one in failing] == [
        (HOOKS, "uncertain", 1),
        (HOOKS, "waiting", 2),
    ]
    assert all(one["reason"] for one in failing)


@case
async def the_status_tells_an_open_guard(scene: Scene) -> None:
    """Nothing is sent while a restore guard is open, so the status says that it is, and no longer."""
    await scene.store.heartbeat("w1")
    opened = await scene.store.open_guard("ana", "restored")
    guard = plain(await scene.views.status())["guard"]
    assert (guard["number"], guard["opened_by"], guard["why"]) == (opened.number, "ana", "restored")
    await scene.store.close_guard("ana", "done")
    assert (await scene.views.status())["guard"] is None


@case
async def the_status_tells_lanes_and_budgets(scene: Scene) -> None:
    """Each lane says what is ready in it, each budget what it holds and why it is shut."""
    await scene.ready("r1", "r2", lane=Lane.URGENT)
    row = await scene.leased("r3")
    await scene.store.settle(HOOKS, [], [Signal(row.endpoint, SignalKind.OPEN, "auth", 30)])
    status = plain(await scene.views.status())
    assert status["lanes"]["urgent"]["count"] == 2
    (budget,) = status["budgets"]
    assert (budget["provider"], budget["endpoint"]) == (HOOKS, keys.show(row.endpoint))
    assert (budget["circuit"], budget["reason"], budget["failures"]) == (True, "auth", 1)
    assert RFC3339_UTC.fullmatch(budget["blocked_until"])


# --- find ----------------------------------------------------------------------------------------


@case
async def a_shown_id_is_found(scene: Scene) -> None:
    """Our own ids of reminders and deliveries are found without an account."""
    (row,) = await scene.schedule("r")
    await scene.tick()
    assert await scene.views.find(keys.show(row.id), None) == ("reminder", row.id)
    assert await scene.views.find(keys.show(delivery_id("r")), None) == ("delivery", delivery_id("r"))
    assert await scene.views.find(keys.show(row.id), "acme") == ("reminder", row.id)


@case
async def a_callers_key_is_found_in_its_account(scene: Scene) -> None:
    """A caller's key is found with its account, also where it looks like one of our ids."""
    lookalike = keys.show(bytes(range(16)))
    rows = await scene.schedule("r", lookalike, "emoji 🧾")
    for row in rows:
        assert await scene.views.find(row.key, "acme") == ("reminder", row.id)


@case
async def what_nobody_has_is_not_found(scene: Scene) -> None:
    """A key without its account, or an id of another account, is not found, and the error says so in one line."""
    (row,) = await scene.schedule("r")
    asked = (("r", None), ("r", "harbour-lofts"), (keys.show(row.id), "harbour-lofts"), (keys.show(bytes(16)), None))
    for identity, account in asked:
        with pytest.raises(NotFound) as error:
            await scene.views.find(identity, account)
        assert "\n" not in str(error.value)


@case
async def hostile_names_are_not_found(scene: Scene) -> None:
    """Names of any kind are looked for and not found, without harm."""
    for identity in ("", "' or 1=1 --", "%", "🧾" * 1000, "a" * 26, "=" * 26, "é" * 26, "AAAAAAAAAAAAAAAAAAAAAAAAAA"):
        for account in (None, "acme", "' or 1=1 --"):
            with pytest.raises(NotFound):
                await scene.views.find(identity, account)


@case
async def an_account_is_known_by_its_reminders(scene: Scene) -> None:
    """An account that has a reminder is known, whatever became of it; a mistyped one is not."""
    await scene.schedule("r", account="acme")
    assert [await scene.views.has_account(name) for name in ("acme", "acm", "", "' or 1=1 --")] == [
        True, False, False, False,
    ]  # fmt: skip


# --- show ----------------------------------------------------------------------------------------


@case
async def a_delivery_is_shown_with_its_words(scene: Scene) -> None:
    """A delivery has the words of the surface in their order, and so have its attempts and events."""
    await scene.uncertain("r")
    await scene.decide(await scene.looked_at(), State.UNCERTAIN, State.HELD, reason="no_way_to_ask")
    shown = plain(await scene.show(delivery_id("r")))
    assert list(shown) == DELIVERY
    assert [list(attempt) for attempt in shown["attempts"]] == [ATTEMPT]
    assert [list(event) for event in shown["events"]] == [EVENT]
    assert (shown["provider"], shown["template"], shown["lane"], shown["receipts"]) == (HOOKS, "note", "normal", [])
    assert (shown["status"], shown["reason"]) == ("held", "no_way_to_ask")
    assert shown["next_action"] == "an operator must decide"


@case
async def a_restored_delivery_says_so(scene: Scene) -> None:
    """While it is open, its field says whether a restore put it in doubt; once it is final, its events do."""
    await scene.ready("r")
    before = await scene.show(delivery_id("r"))
    assert (before["restored"], before["recipient"]) == (False, "ana")
    await scene.store.heartbeat("w1")
    await scene.store.open_guard("ana", "restored")
    assert (await scene.show(delivery_id("r")))["restored"] is True
    assert await scene.decide(await scene.looked_at(), State.UNCERTAIN, State.UNCONFIRMED, reason="no_way_to_ask")
    shown = await scene.show(delivery_id("r"))
    assert (shown["restored"], shown["status"]) == (None, "unconfirmed")
    assert "restored" in [event["kind"] for event in shown["events"]]


@case
async def what_a_restore_put_in_doubt_comes_in_groups(scene: Scene) -> None:
    """Rows of one way are one group, with their count and the age of the oldest doubt; asked endpoints are named."""
    await scene.held("h", account="other")
    await scene.ready("a", "b")
    assert await scene.views.forgotten([]) == []
    await scene.store.heartbeat("w1")
    await scene.store.open_guard("ana", "restored")
    endpoint = keys.endpoint_id(NAMESPACE, "https://app.example.com/hooks")
    groups = plain(await scene.views.forgotten([keys.NO_ENDPOINT]))
    assert all(list(group) == FORGOTTEN for group in groups)
    found = {(group["account"], group["state"]): group for group in groups}
    assert {place: group["count"] for place, group in found.items()} == {("acme", "uncertain"): 2, ("other", "held"): 1}
    one = found["acme", "uncertain"]
    assert (one["provider"], one["endpoint"]) == (HOOKS, None)
    assert (one["granted"], one["closed"], one["deadline_passed"]) == (False, False, False)
    assert 0 <= one["age_seconds"] < 600
    assert {group["endpoint"] for group in await scene.views.forgotten([endpoint])} == {keys.show(endpoint)}


@case
async def a_lease_is_shown_while_it_lasts(scene: Scene) -> None:
    """A delivery's lease is shown while somebody holds it, and its next moment while nobody does."""
    row = await scene.leased("r")
    leased = plain(await scene.show(row.id))
    assert (leased["lease_expires_at"] is not None, leased["next_at"]) == (True, None)
    await scene.begin(row)
    await scene.settle(row, Outcome.REFUSED, wait=timedelta(hours=1))
    waiting = plain(await scene.show(row.id))
    assert (waiting["lease_expires_at"], waiting["next_at"] is not None) == (None, True)


@case
async def a_reminder_is_shown_with_its_words(scene: Scene) -> None:
    """A reminder has the words of the surface, its next local time beside its zone, and its deliveries."""
    rows = await scene.schedule(
        "later", due_in=3600, zone="Asia/Tokyo", follows_recipient=True, recipient_zone="Asia/Kathmandu"
    )
    shown = plain(await scene.views.show_reminder(rows[0].id))
    assert list(shown) == REMINDER
    assert (shown["id"], shown["account"], shown["idempotency_key"]) == (keys.show(rows[0].id), "acme", "later")
    assert (shown["status"], shown["zone"], shown["deliveries"]) == ("active", "Asia/Kathmandu", [])
    local = rows[0].next_due_at + timedelta(hours=5, minutes=45)
    assert shown["next_local"] == local.replace(tzinfo=None).isoformat()


@case
async def a_reminder_shows_its_deliveries(scene: Scene) -> None:
    """A reminder's deliveries are shown as in the list, and a done one is due no more."""
    (row,) = await scene.schedule("r", channels=(Channel.EMAIL, Channel.WEBHOOK))
    await scene.tick()
    shown = plain(await scene.views.show_reminder(row.id))
    assert [list(line) for line in shown["deliveries"]] == [LINE, LINE]
    assert {line["channel"] for line in shown["deliveries"]} == {"email", "webhook"}
    assert (shown["status"], shown["next_due_at"], shown["next_local"]) == ("done", None, None)


@case
async def what_is_not_there_is_not_shown(scene: Scene) -> None:
    """An id that names nothing raises NotFound."""
    with pytest.raises(NotFound):
        await scene.views.show_delivery(bytes(16))
    with pytest.raises(NotFound):
        await scene.views.show_reminder(bytes(16))


@case
async def accounts_do_not_share_timelines(scene: Scene) -> None:
    """Two accounts' deliveries under one key have their own attempts and events."""
    await scene.waiting("r", account="acme")
    await scene.ready("r", account="harbour-lofts")
    assert await scene.outcomes(delivery_id("r", account="harbour-lofts")) == []
    assert await scene.outcomes(delivery_id("r", account="acme")) == ["refused"]


# --- invariants ----------------------------------------------------------------------------------


@case
async def invariants_have_names_and_hold(scene: Scene) -> None:
    """The ledger can name what must hold, and counts nothing that breaks it."""
    found = await scene.views.invariants()
    assert len(found) >= 8
    assert len({name for name, _ in found}) == len(found)
    assert all(count == 0 for _, count in found)


@case
async def findings_are_told_apart(scene: Scene) -> None:
    """Each has its name: an overdue hold, an ended lease, work that no provider sends, an open guard."""

    async def found(*providers: str) -> dict[str, int]:
        return dict(await scene.views.findings(providers or list(PROVIDERS.values())))

    names = ("guard_open", "hold_past_its_alarm", "lease_not_taken_back", "provider_not_configured")
    assert await found() == dict.fromkeys(names, 0)
    await scene.held("h")
    await scene.leased("l")
    assert await found() == dict.fromkeys(names, 0)
    await scene.ledger.pass_time(4 * 3600)
    assert await found("texts") == {
        "guard_open": 0, "hold_past_its_alarm": 1, "lease_not_taken_back": 1, "provider_not_configured": 2,
    }  # fmt: skip
    await scene.store.heartbeat("w1")
    await scene.store.open_guard("ana", "restored")
    assert (await found())["guard_open"] == 1
