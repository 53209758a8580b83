"""A submission becomes a reminder with all that the ledger needs, or one clear reason why not."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.content import Template, TemplateSet
from duly.core import keys
from duly.core.model import Channel, Lane, NewContact, NewReminder
from duly.core.schedule import Schedule
from duly.errors import InputError
from duly.intake import Intake, Purposes, Rejection, zones
from duly.intake.recipients import read_recipient
from tests.intake.samples import ALL_CHANNELS, NAMESPACE, TEMPLATES, ZONES, intake, refused, row


def test_a_full_submission_becomes_a_reminder() -> None:
    """Every field of the surface arrives, normalised, with derived ids."""
    to = {
        "id": "recipient-17",
        "name": "Ana",
        "email": "Ana@EXAMPLE.com",
        "phone": "+1 415 555 0100",
        "webhook": "https://app.example.com",
        "zone": "Europe/Berlin",
        "locale": "en",
    }
    made = intake().accept(
        row(
            to=to,
            channels=["email", "webhook"],
            template="inspection",
            data={"unit": "4B", "size": 3.5},
            notify_at="2026-12-01T09:00",
            zone="recipient",
            repeat=None,
            deadline="PT8H",
            late="drop",
            lane="urgent",
            purpose="marketing",
            event_version=3,
        )
    )
    due = datetime(2026, 12, 1, 8, tzinfo=UTC)
    assert made.id == keys.reminder_id(NAMESPACE, "harbour-lofts", "inspection-4411")
    assert made.recipient == keys.recipient_id(NAMESPACE, "harbour-lofts", "recipient-17")
    assert (made.account, made.key, made.recipient_ref) == ("harbour-lofts", "inspection-4411", "recipient-17")
    assert (made.recipient_name, made.recipient_zone, made.recipient_locale) == ("Ana", "Europe/Berlin", "en")
    assert made.channels == (Channel.EMAIL, Channel.WEBHOOK)
    assert [(one.channel, one.address) for one in made.contacts] == [
        (Channel.EMAIL, "Ana@example.com"),
        (Channel.SMS, "+14155550100"),
        (Channel.WEBHOOK, "https://app.example.com/"),
    ]
    assert json.loads(made.data) == {"unit": "4B", "size": 3.5}
    assert json.loads(made.to) == to
    assert (made.notify_at, made.zone, made.next_due_at) == ("2026-12-01T09:00", "Europe/Berlin", due)
    assert (made.deadline, made.deadline_at) == ("PT8H", due + timedelta(hours=8))
    assert (made.late, made.lane, made.purpose, made.event_version) == ("drop", Lane.URGENT, "marketing", 3)


def test_what_is_left_out_has_a_default() -> None:
    """Channel, lane, purpose, deadline and data follow from the rest."""
    made = intake().accept(row())
    assert made.channels == (Channel.EMAIL,)
    assert (made.lane, made.purpose, made.late, made.event_version) == (Lane.NORMAL, "service", "drop", None)
    assert (made.deadline, made.deadline_at) == (None, made.next_due_at + timedelta(hours=24))
    assert (made.zone, made.data, made.template) == (None, "{}", "note")


def test_contacts_are_identified_by_what_is_normal() -> None:
    """Two spellings of an address are one contact; a webhook's endpoint is its URL."""
    one, other = (
        intake().accept(row(to={"webhook": url})).contacts[0]
        for url in ("HTTPS://App.example.com:443/in", "https://app.example.com/in")
    )
    url = "https://app.example.com/in"
    identity = keys.contact_id(NAMESPACE, "harbour-lofts", "webhook", url)
    assert one == other == NewContact(identity, Channel.WEBHOOK, url, keys.endpoint_id(NAMESPACE, url))
    assert intake().accept(row()).contacts[0].endpoint == keys.NO_ENDPOINT


# --- the whole object ----------------------------------------------------------------------------


@pytest.mark.parametrize("raw", [None, [], "text", 7, True, [("idempotency_key", "k")]])
def test_only_an_object_is_a_submission(raw: Any) -> None:
    """Anything else is refused as such."""
    with pytest.raises(Rejection, match="must be an object, not"):
        intake().accept(raw)


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"idempotencykey": "k"}, "idempotencykey", 'did you mean "idempotency_key"?'),
        ({"Template": "note"}, "Template", 'did you mean "template"?'),
        ({"xyz": 1}, "xyz", "there is no such field"),
        ({"x\ny" * 99: 1}, "x yx yx yx yx yx yx yx yx yx yx yx yx yx y"[:40].rstrip(), "there is no such field"),
        ({"to": {"emial": "a@example.com"}}, "to.emial", 'did you mean "email"?'),
        ({"fallback": ["email", "sms"]}, "fallback", "not supported by this version"),
        ({"late": ["drop"]}, "late", "must be text, not a list"),
        ({"late": "sometimes"}, "late", "must be drop or send_marked or summarize"),
        ({"late_until": "P1D"}, "late_until", "leave it out"),
        ({"late": "send_marked"}, "late_until", "is missing beside late"),
        ({"late": "summarize"}, "late_until", 'is missing beside late: "summarize"'),
        ({"idempotency_key": "duly/summary/a"}, "idempotency_key", "begins with duly/"),
        ({"late": "send_marked", "late_until": "P1D"}, "deadline", "is missing beside late"),
        ({"late": "send_marked", "late_until": "PT8H", "deadline": "PT8H"}, "late_until", "is not after the deadline"),
        ({"late": "send_marked", "late_until": "P1Y", "deadline": "PT8H"}, "late_until", "no fixed length"),
        (
            {"late": "send_marked", "late_until": "2026-12-03T09:00", "deadline": "PT8H"},
            "late_until",
            "is a local time",
        ),
        (
            {"repeat": "FREQ=DAILY", "late": "send_marked", "late_until": "2027-12-03T09:00Z", "deadline": "PT8H"},
            "late_until",
            "must be a duration like P1D",
        ),
        ({"group": 7}, "group", "must be text"),
        (
            {"account": "elsewhere", "to": {"email": "a@example.com", "quiet_hours": ["21:00-08:00"]}},
            "to.quiet_hours",
            "need a zone",
        ),
    ],
)
def test_fields_that_are_not_known(changes: dict[str, Any], field: str, words: str) -> None:
    """A typo is named with what it may mean, and a later version's field is refused rather than ignored."""
    where, reason = refused(**changes)
    assert where == field
    assert words in reason


@pytest.mark.parametrize("nothing", [None, "", []])
def test_no_quiet_hours_are_none(nothing: Any) -> None:
    """Null, empty text and an empty list say nothing about a recipient's hours."""
    assert intake().accept(row(to={"email": "a@example.com", "quiet_hours": nothing})).recipient_ref == "a@example.com"
    assert read_recipient({"id": "r", "quiet_hours": nothing}).quiet_hours == ()


def test_quiet_hours_are_read_in_their_canonical_text() -> None:
    """Each spelling of a window arrives as the same one."""
    to = {"id": "r", "quiet_hours": ["21:00-08:00", "SUN,sat 20:00-00:00"]}
    assert read_recipient(to).quiet_hours == ("21:00-08:00", "sat,sun 20:00-24:00")


@pytest.mark.parametrize("raw", [{1: 2}, {None: 1}, {(): 1}])
def test_names_of_fields_are_text(raw: Any) -> None:
    """A Python caller's odd keys are unknown fields."""
    with pytest.raises(Rejection, match="no such field"):
        intake().accept(raw)


def test_a_rejection_is_an_input_error_that_names_its_field() -> None:
    """Whoever prints it gets one line with the field in front."""
    with pytest.raises(InputError, match=r"^account: is missing$"):
        intake().accept(row(account=...))


# --- single fields -------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["idempotency_key", "account", "template", "notify_at", "to"])
@pytest.mark.parametrize("value", [..., None, ""])
def test_what_every_submission_needs(field: str, value: Any) -> None:
    """Absent, null and empty are the same, and are refused by name."""
    where, reason = refused(**{field: value})
    assert where == field
    assert "is missing" in reason or "must be an object" in reason


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"idempotency_key": 4411}, "idempotency_key", "must be text, not a number"),
        ({"idempotency_key": "k" * 256}, "idempotency_key", "longer than 255"),
        ({"idempotency_key": "a\nb"}, "idempotency_key", "control character"),
        ({"idempotency_key": "a\0b"}, "idempotency_key", "control character"),
        ({"idempotency_key": "a\ud800"}, "idempotency_key", "surrogate"),
        ({"idempotency_key": "a\u2028"}, "idempotency_key", "line break"),
        ({"idempotency_key": " k"}, "idempotency_key", "blanks around"),
        ({"idempotency_key": "\u3000k"}, "idempotency_key", "blanks around"),
        ({"account": True}, "account", "must be text, not true or false"),
        ({"account": "a" * 101}, "account", "longer than 100"),
        ({"account": "a\0"}, "account", "control character"),
        ({"template": ["note"]}, "template", "must be text, not a list"),
        ({"template": "notes"}, "template", 'no template has this name; did you mean "note"?'),
        ({"template": "{{ 7*7 }}"}, "template", "no template has this name; there are "),
        ({"lane": "fast"}, "lane", "must be urgent or normal or bulk"),
        ({"lane": "norml"}, "lane", 'did you mean "normal"?'),
        ({"lane": 1}, "lane", "must be text"),
        ({"purpose": "p" * 51}, "purpose", "longer than 50"),
        ({"event_version": "3"}, "event_version", "must be a whole number, not text"),
        ({"event_version": True}, "event_version", "must be a whole number, not true or false"),
        ({"event_version": 1.0}, "event_version", "must be a whole number"),
        ({"event_version": -1}, "event_version", "between 0 and"),
        ({"event_version": 2**31}, "event_version", "between 0 and 2,147,483,647"),
        ({"channels": "email"}, "channels", 'must be a list like ["email"], not text'),
        ({"channels": []}, "channels", "one to 3 channels"),
        ({"channels": ["email"] * 4}, "channels", "one to 3 channels"),
        ({"channels": ["email", "email"]}, "channels", "twice"),
        ({"channels": ["e-mail"]}, "channels", 'did you mean "email"?'),
        ({"channels": [["email"]]}, "channels", "a channel is email or sms or webhook"),
        ({"channels": [None]}, "channels", "a channel is"),
        ({"channels": ["sms"]}, "channels", "sms is asked for, and there is no to.phone"),
        ({"channels": ["email", "webhook"]}, "channels", "webhook is asked for, and there is no to.webhook"),
        ({"to": "ana@example.com"}, "to", "must be an object, not text"),
        ({"to": {}}, "to", "needs an id or an address"),
        ({"to": {"name": "Ana"}}, "to", "needs an id or an address"),
        ({"to": {"id": 17}}, "to.id", "must be text, not a number"),
        ({"to": {"id": "i" * 256}}, "to.id", "longer than 255"),
        ({"to": {"id": "i\ud800"}}, "to.id", "surrogate"),
        ({"to": {"email": "no-at-sign"}}, "to.email", "is not an e-mail address: An email address must have an @-sign"),
        ({"to": {"email": ["a@example.com"]}}, "to.email", "must be text"),
        ({"to": {"email": "a@example.com "}}, "to.email", "blanks around"),
        ({"to": {"phone": "4155550100"}}, "to.phone", "international form"),
        ({"to": {"webhook": "not a url"}}, "to.webhook", "is not a URL"),
        ({"to": {"email": "a@example.com", "name": 5}}, "to.name", "must be text, not a number"),
        ({"to": {"email": "a@example.com", "name": "n" * 201}}, "to.name", "longer than 200"),
        ({"to": {"email": "a@example.com", "zone": "Mars"}}, "to.zone", "no such time zone"),
        ({"to": {"email": "a@example.com", "locale": "english please"}}, "to.locale", "language tag"),
        ({"to": {"email": "a@example.com", "locale": "x" * 36}}, "to.locale", "longer than 35"),
        ({"to": {"id": "r", "quiet_hours": "21:00-08:00"}}, "to.quiet_hours", "must be a list like"),
        ({"to": {"id": "r", "quiet_hours": [21]}}, "to.quiet_hours", "not a list of something else"),
        (
            {"to": {"id": "r", "quiet_hours": ["nights"]}},
            "to.quiet_hours",
            "window 1: it is not a window of quiet hours; write one",
        ),
        ({"to": {"id": "r", "quiet_hours": ["00:00-24:00"]}}, "to.quiet_hours", "cover the whole week"),
        ({"to": {"id": "r", "quiet_hours": ["21:00-08:00"] * 21}}, "to.quiet_hours", "over 20 windows"),
        ({"data": [1]}, "data", "must be an object, not a list"),
        ({"data": "{}"}, "data", "must be an object, not text"),
    ],
)
def test_fields_are_read_strictly(changes: dict[str, Any], field: str, words: str) -> None:
    """Wrong types, lengths, characters and words are each refused with what to do instead."""
    where, reason = refused(**changes)
    assert where == field
    assert words in reason


def test_other_scripts_are_welcome() -> None:
    """Keys, accounts and names may be written in any script, with any emoji."""
    key, account = "\u05e9\u05dc\u05d5\u05dd-\U0001f468\u200d\U0001f469", "\u6e2f\u53e3 3"
    made = intake().accept(row(idempotency_key=key, account=account, to={"id": "\u00e9", "email": "a@example.com"}))
    assert (made.key, made.account, made.recipient_ref) == (key, account, "\u00e9")


# --- recipients and channels ---------------------------------------------------------------------


def test_an_id_alone_leaves_the_addresses_to_the_store() -> None:
    """No contacts are made, and the channels must be named."""
    made = intake().accept(row(to={"id": "recipient-17"}, channels=["sms"]))
    assert (made.contacts, made.channels, made.recipient_ref) == ((), (Channel.SMS,), "recipient-17")
    assert (
        refused(to={"id": "recipient-17"})[1]
        == 'is missing, and to gives no address; name the channels, like ["email"]'
    )


@pytest.mark.parametrize(
    ("to", "ref"),
    [
        ({"email": "Ana@EXAMPLE.com"}, "Ana@example.com"),
        ({"phone": "+1 415 555 0100"}, "+14155550100"),
        ({"webhook": "https://App.example.com"}, "https://app.example.com/"),
        ({"webhook": "https://app.example.com", "email": "a@example.com"}, "a@example.com"),
        ({"id": "", "email": "a@example.com"}, "a@example.com"),
    ],
)
def test_an_address_may_name_its_recipient(to: dict[str, str], ref: str) -> None:
    """Without an id, the first normal address stands for it, so one address is one recipient."""
    fields = {"email": "email", "phone": "sms", "webhook": "webhook"}
    channels = [channel for field, channel in fields.items() if field in to]
    assert intake().accept(row(to=to, channels=channels)).recipient_ref == ref


def test_several_addresses_need_named_channels() -> None:
    """Nobody is written to twice because he has two addresses."""
    to = {"email": "a@example.com", "phone": "+14155550100"}
    assert refused(to=to)[1].startswith("is missing, and to gives several addresses")
    assert intake().accept(row(to=to, channels=["sms", "email"])).channels == (Channel.SMS, Channel.EMAIL)


def test_a_channel_needs_a_provider() -> None:
    """A reminder that nothing could send is refused when it is submitted."""
    texts = row(to={"phone": "+14155550100"})
    assert intake().accept(texts).channels == (Channel.SMS,)
    with pytest.raises(Rejection, match=r"^channels: no provider sends sms here"):
        intake({"email": "mail"}).accept(texts)


@pytest.mark.parametrize(
    ("name", "kept"),
    [("Ana\r\nBcc: x", "Ana Bcc: x"), ("A\0na\ud800", "Ana"), ("\0", None), ("", None), ("\u00c1na", "\u00c1na")],
)
def test_names_are_prose(name: str, kept: str | None) -> None:
    """What cannot be recorded is taken out of a name, a line break becomes a space, and the rest is kept."""
    made = intake().accept(row(to={"email": "a@example.com", "name": name}))
    assert made.recipient_name == kept
    assert (json.loads(made.to)["name"] or None) == kept


# --- data ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "kept"),
    [
        ({"a": "x\0y", "b": "\ud800z", "c\0": 1}, {"a": "xy", "b": "z", "c": 1}),
        ({"a": "\\u0000", "b": "{{ 7*7 }}"}, {"a": "\\u0000", "b": "{{ 7*7 }}"}),
        ({"a": None, "b": [True, 1.5, {"c": []}]}, {"a": None, "b": [True, 1.5, {"c": []}]}),
        ({"a": [2**64 - 1, -(2**63)], "b": None}, {"a": [2**64 - 1, -(2**63)], "b": None}),
        ({"a": ("x\0", 1)}, {"a": ["x", 1]}),
        ({"a": [[]] * 30}, {"a": [[]] * 30}),
    ],
)
def test_data_is_kept_but_for_what_cannot_be(data: dict[str, Any], kept: dict[str, Any]) -> None:
    """NUL and lone surrogates go, at any depth; all else comes back as it was."""
    assert json.loads(intake().accept(row(data=data)).data) == kept


def nested(depth: int) -> dict[str, Any]:
    """An object so many deep."""
    found: dict[str, Any] = {}
    for _ in range(depth - 1):
        found = {"a": found}
    return found


@pytest.mark.parametrize(
    ("data", "field", "words"),
    [
        ({"a": float("nan")}, "data.a", "NaN or an infinity"),
        ({"a": [1, float("-inf")]}, "data.a", "NaN or an infinity"),
        ({"a": 2**64}, "data.a", "beyond 64 bits"),
        ({"a": {"b": -(2**63) - 1}}, "data.a", "beyond 64 bits"),
        ({"a": 10**10_000}, "data.a", "beyond 64 bits"),
        ({"a": datetime(2026, 1, 1, tzinfo=UTC)}, "data", "JSON does not have"),
        ({"a": b"bytes"}, "data", "JSON does not have"),
        ({"a": {1: 2}}, "data.a", "a key that is not text but a number"),
        (nested(21), "data.a", "nested more than 20 deep"),
        (nested(5_000), "data.a", "nested more than 20 deep"),
        ({"a": "x" * 65_536}, "data", "is 65,544 bytes of JSON, over 65,536"),
        ({"a": "\u20ac" * 30_000}, "data", "over 65,536"),
    ],
)
def test_data_that_cannot_be_kept(data: dict[str, Any], field: str, words: str) -> None:
    """What JSON or a database would change or not hold is refused, and the place is named."""
    where, reason = refused(data=data)
    assert where == field
    assert words in reason


def test_data_may_be_twenty_deep_and_64_kib() -> None:
    """The limits themselves are allowed."""
    assert json.loads(intake().accept(row(data=nested(20))).data) == nested(20)
    assert len(intake().accept(row(data={"a": "x" * (65_536 - 8)})).data) == 65_536


def test_data_that_contains_itself_is_refused() -> None:
    """A Python object can be its own part; JSON cannot."""
    loop: dict[str, Any] = {}
    loop["a"] = loop
    assert refused(data=loop) == ("data.a", "is nested more than 20 deep; make it flatter")


def test_a_template_that_cannot_be_rendered_is_refused_at_once() -> None:
    """The reason comes when the row is submitted, not when it is due."""
    where, reason = refused(template="inspection", data={})
    assert (where, reason) == ("data", "template inspection, text, line 1: data.unit is missing")
    nameless = {"email": "a@example.com"}
    assert "recipient.name is null" in refused(template="inspection", data={"unit": 1}, to=nameless)[1]
    known = intake().accept(row(template="inspection", data={"unit": 1}, to={"id": "r"}, channels=["email"]))
    assert known.template == "inspection"


# --- the hash of the body ------------------------------------------------------------------------


def test_the_hash_is_of_sorted_json() -> None:
    """Anyone can compute it: SHA-256 of the row as compact JSON with sorted keys, and data always there."""
    written = json.dumps({**row(), "data": {}}, sort_keys=True, separators=(",", ":"))
    assert intake().accept(row()).body_hash == hashlib.sha256(written.encode()).digest()


@given(st.permutations(list(row(data={"a": 1, "b": {"c": 2, "d": None}}).items())))
def test_the_order_of_keys_does_not_matter(items: list[tuple[str, Any]]) -> None:
    """Two programs may write the same row in any order."""
    turned = {**dict(items), "data": {"b": {"d": None, "c": 2}, "a": 1}}
    assert intake().accept(turned).body_hash == intake().accept(row(data={"a": 1, "b": {"c": 2, "d": None}})).body_hash


def test_nulls_do_not_matter_outside_the_data() -> None:
    """A field that is null says the same as one that is absent; in data it does not."""
    bare = intake().accept(row()).body_hash
    to = {"id": "recipient-17", "name": "Ana", "email": "ana@example.com", "phone": None}
    assert intake().accept(row(repeat=None, zone=None, to=to)).body_hash == bare
    assert intake().accept(row(data={"a": None})).body_hash != bare


@pytest.mark.parametrize(
    "changes",
    [
        {"data": {"a": 2}},
        {"deadline": "PT9H"},
        {"lane": "bulk"},
        {"notify_at": "2026-12-01T09:00:01Z"},
        {"purpose": "x"},
    ],
)
def test_another_body_has_another_hash(changes: dict[str, Any]) -> None:
    """A change of any field is seen."""
    assert intake().accept(row(**changes)).body_hash != intake().accept(row()).body_hash


def test_a_line_that_was_set_aside_may_come_back_as_it_is() -> None:
    """FILE.rejected.jsonl, mended, is imported like any other file."""
    set_aside = {"line": 3, "reason": "not an address", "field": "to.email", "row": row()}
    assert intake().accept(set_aside) == intake().accept(row())
    with pytest.raises(Rejection, match="must be an object"):
        intake().accept({**set_aside, "row": "text"})
    with pytest.raises(Rejection, match="no such field"):
        intake().accept({**set_aside, "more": 1})


# --- what goes on --------------------------------------------------------------------------------

NOON: Final = datetime(2026, 12, 5, 12, 0, tzinfo=UTC)


def test_what_repeats_is_kept_with_its_next_occurrence() -> None:
    """The rule, the label, the zone and the version of its data; what was due before anybody asked is not missed."""
    made = intake().accept(
        row(notify_at="2026-12-01T09:00", repeat="FREQ=DAILY", missed="all:3", grace="P2D", deadline="PT8H"), NOON
    )
    assert made.schedule is not None
    assert Schedule.from_text(made.schedule).repeat is not None
    assert (made.next_label, made.next_due_at) == ("2026-12-05T09:00", datetime(2026, 12, 5, 14, 0, tzinfo=UTC))
    assert made.deadline_at == made.next_due_at + timedelta(hours=8)
    assert (made.zone, made.zone_data, made.follows_recipient) == ("America/New_York", zones.version(), False)
    assert (made.missed, made.grace) == ("all:3", "P2D")


def test_a_rule_that_is_over_is_refused() -> None:
    """Nothing would ever come of it."""
    with pytest.raises(Rejection, match="no occurrence that is still to come"):
        intake().accept(row(repeat="FREQ=DAILY;COUNT=2"), NOON)


def test_an_anchor_is_kept_with_its_offsets() -> None:
    """The first offset is next, even if it is past: what does not repeat is always written."""
    made = intake().accept(row(notify_at=..., starts_at="2026-12-06T09:00:00Z", before=["PT1H", "P2D"]), NOON)
    assert (made.next_label, made.next_due_at) == ("-PT48H", datetime(2026, 12, 4, 9, 0, tzinfo=UTC))
    assert made.notify_at == "2026-12-06T09:00:00Z"


def test_what_fires_once_needs_no_schedule() -> None:
    """Its zone's data is remembered only where it is a local time."""
    local, instant = intake().accept(row(notify_at="2026-12-01T09:00")), intake().accept(row())
    assert [(one.schedule, one.next_label) for one in (local, instant)] == [(None, None)] * 2
    assert (local.zone_data, instant.zone_data) == (zones.version(), None)


def test_a_zone_that_came_along_is_told_by_its_name() -> None:
    """The ledger compares it with the one on record; one that it knows of an id is the recipient's."""
    local, to = {"notify_at": "2026-12-01T09:00", "zone": "recipient"}, {"id": "r", "email": "a@example.com"}
    own = intake().accept(row(**local, to={**to, "zone": "W. Europe Standard Time"}))
    assert (own.follows_recipient, own.zone, own.recipient_zone) == (True, "Europe/Berlin", "Europe/Berlin")
    his = intake().accept(row(**local, to=to), zone_of=lambda *_: "Asia/Tokyo")
    assert (his.follows_recipient, his.zone, json.loads(his.to)) == (True, "Asia/Tokyo", to)


def test_what_may_come_late_lasts_until_then() -> None:
    """With send_marked and summarize the last moment is late_until; from the deadline on it is late."""
    for policy in ("send_marked", "summarize"):
        made = intake().accept(row(late=policy, deadline="PT1H", late_until="PT8H"))
        assert (made.late, made.deadline, made.late_until) == (policy, "PT1H", "PT8H")
        assert made.deadline_at == made.next_due_at + timedelta(hours=8)


def test_a_group_and_quiet_hours_are_kept() -> None:
    """They are the caller's words, checked."""
    to = {"id": "r", "email": "a@example.com", "quiet_hours": ["21:00-08:00"]}
    made = intake().accept(row(group="booking-7", to=to))
    assert (made.group, made.recipient_quiet_hours) == ("booking-7", ("21:00-08:00",))


def test_a_reminder_is_pinned_to_the_current_version() -> None:
    """What is promised is rendered by the template as it is now; that is no part of the body as submitted."""
    reminder = intake().accept(row(template="note"))
    assert reminder.template_version == TEMPLATES.version("note")
    changed = TemplateSet({"note": Template("note", "", "hello again")})
    later = Intake(NAMESPACE, changed, ALL_CHANNELS, ZONES.get).accept(row(template="note"))
    assert later.template_version == changed.version("note") != reminder.template_version
    assert later.body_hash == reminder.body_hash


def test_the_last_one_before_an_anchor_is_of_use_until_then() -> None:
    """Nobody is told an hour before after it has begun, unless a deadline asks for that."""
    when = {"notify_at": None, "starts_at": "2099-12-01T10:00:00Z"}
    alone = intake().accept(row(**when, before=["PT1H"]))
    assert alone.deadline_at - alone.next_due_at == timedelta(hours=1)
    first = intake().accept(row(**when, before=["PT24H", "PT1H"]))
    assert first.deadline_at - first.next_due_at == timedelta(hours=23)
    said = intake().accept(row(**when, before=["PT1H"], deadline="PT2H"))
    assert said.deadline_at - said.next_due_at == timedelta(hours=2)


# --- purposes ------------------------------------------------------------------------------------

PURPOSES = Purposes({"harbour-lofts": ("Newsletter",)}, ("marketing",))


def with_purposes(**changes: Any) -> NewReminder:
    """A row, accepted where these purposes are known."""
    return Intake(NAMESPACE, TEMPLATES, ALL_CHANNELS, ZONES.get, PURPOSES).accept(row(**changes))


@pytest.mark.parametrize(
    ("purpose", "known"), [("Marketing", "marketing"), ("SERVICE", "service"), ("newsletter", "Newsletter")]
)
def test_a_purpose_in_another_case_is_refused(purpose: str, known: str) -> None:
    """Its caps, quiet hours and opt-outs would not be those of the known one, which the reason names."""
    with pytest.raises(Rejection, match=f'purpose: differs only by case .* did you mean "{known}"') as caught:
        with_purposes(purpose=purpose)
    assert caught.value.field == "purpose"


def test_a_purpose_that_is_near_a_known_one_is_taken_and_told() -> None:
    """It may be meant; what is known, and what is like nothing, is nobody's mistake."""
    intake = Intake(NAMESPACE, TEMPLATES, ALL_CHANNELS, ZONES.get, PURPOSES)
    near = {one: intake.near_purpose(with_purposes(purpose=one)) for one in ("marketng", "Newsletter", "billing", "")}
    assert near == {"marketng": "marketing", "Newsletter": None, "billing": None, "": None}
    assert with_purposes(purpose="Newsletters").purpose == "Newsletters"
    anybodys = Intake(NAMESPACE, TEMPLATES, ALL_CHANNELS, ZONES.get)
    assert anybodys.near_purpose(anybodys.accept(row(purpose="Marketing"))) is None


def test_a_purpose_of_another_account_is_not_known() -> None:
    """What one account calls its purposes is its own."""
    assert with_purposes(account="other", purpose="newsletter").purpose == "newsletter"
