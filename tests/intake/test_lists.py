"""Rows about consent and recipients: whatever is sent ends as what it is meant to be, or as a reason, and soon."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.core import keys
from duly.core.consent import ALL, EVERYTHING, Kind
from duly.core.model import Channel
from duly.core.text import is_recordable
from duly.errors import InputError
from duly.intake import CONSENT_TABLE, RECIPIENT_TABLE, ConsentIntake, RecipientIntake, Rejection, contact_of, read
from duly.ports import NewConsent, RecipientChange
from tests.intake.samples import NAMESPACE, NAUGHTY
from tests.intake.test_hostile import ANYTHING, soon

NOW: Final = datetime(2026, 12, 1, 9, tzinfo=UTC)
CONSENT: Final = ConsentIntake(NAMESPACE, "acme", "import list.csv", NOW)
RECIPIENTS: Final = RecipientIntake(NAMESPACE, "acme")
STATEMENT: Final = {"address": "ana@example.com", "kind": "opt_out"}
PERSON: Final = {"id": "t1", "email": "ana@example.com"}


def texts(made: NewConsent | RecipientChange) -> list[str]:
    """All text that would be written."""
    if isinstance(made, NewConsent):
        return [made.contact.address, made.said.scope, made.said.source, made.said.reason]
    return [made.ref, *[value for value in made.fields.values() if value is not None]]


def answer(checks: ConsentIntake | RecipientIntake, raw: Any) -> NewConsent | RecipientChange | Rejection:
    """Accept or reject, soon; what is accepted is fit for any database, and a reason is one line."""
    with soon():
        made = accepted(checks, raw)
    if isinstance(made, Rejection):
        assert len(str(made).splitlines()) == 1
        assert len(str(made)) < 500
    else:
        assert all(map(is_recordable, texts(made)))
    return made


def accepted(checks: ConsentIntake | RecipientIntake, raw: Any) -> NewConsent | RecipientChange | Rejection:
    """What becomes of a row."""
    try:
        return checks.accept(raw)
    except Rejection as rejection:
        return rejection


# --- consent -------------------------------------------------------------------------------------


def test_a_statement_with_everything_said() -> None:
    """Each field has its place; the address is normalised, and the contact has its derived id."""
    row = {**STATEMENT, "channel": "email", "purpose": "marketing", "at": "2026-05-01T10:00:00+02:00"}
    made = CONSENT.accept({**row, "source": "event\n17", "reason": "clicked"})
    assert made.contact.id == keys.contact_id(NAMESPACE, "acme", "email", "ana@example.com")
    at = datetime(2026, 5, 1, 8, tzinfo=UTC)
    assert made.said == (Kind.OPT_OUT, "marketing", at, "event 17", "clicked", True)


@pytest.mark.parametrize(
    ("changes", "scope"),
    [
        ({}, ALL),
        ({"purpose": "all"}, ALL),
        ({"purpose": None}, ALL),
        ({"purpose": "all+security"}, EVERYTHING),
        ({"kind": "manual"}, EVERYTHING),
        ({"kind": "manual", "purpose": "marketing"}, "marketing"),
        ({"kind": "bounce", "purpose": "all"}, EVERYTHING),
        ({"kind": "complaint", "purpose": "all+security"}, EVERYTHING),
    ],
)
def test_what_is_left_out(changes: dict[str, Any], scope: str) -> None:
    """Nobody knows when it was said, the file is its source, and it is about all purposes."""
    said = CONSENT.accept({**STATEMENT, **changes}).said
    assert (said.scope, said.at, said.source, said.reason) == (scope, None, "import list.csv", "imported")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"address": None}, "address"),
        ({"address": 17}, "address"),
        ({"address": "a@" + "x" * 1_000_000}, "address"),
        ({"address": "+1"}, "address"),
        ({"address": "ana@example.com", "channel": "sms"}, "address"),
        ({"channel": "pigeon"}, "channel"),
        ({"kind": None}, "kind"),
        ({"kind": "lift"}, "kind"),
        ({"kind": "optout"}, "kind"),
        ({"kind": "bounce", "purpose": "marketing"}, "purpose"),
        ({"purpose": "a\0b"}, "purpose"),
        ({"at": "yesterday"}, "at"),
        ({"at": "2026-05-01T10:00:00"}, "at"),
        ({"at": "2026-12-01T09:06:00Z"}, "at"),
        ({"at": 1764579600}, "at"),
        ({"source": "x" * 201}, "source"),
        ({"reason": ["x"]}, "reason"),
        ({"account": "acme"}, "account"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], field: str) -> None:
    """The rejection names the field, and never repeats an address."""
    made = answer(CONSENT, {**STATEMENT, **changes})
    assert isinstance(made, Rejection)
    assert made.field == field
    assert "ana@example.com" not in str(made)


@pytest.mark.parametrize(
    ("address", "channel"),
    [("a@example.com", Channel.EMAIL), ("+1@example.com", Channel.EMAIL), ("+14155550100", Channel.SMS)],
)
def test_the_address_tells_its_channel(address: str, channel: Channel) -> None:
    """What holds an @ is an e-mail address, also where it begins like a number; a URL is told by its scheme."""
    assert contact_of(NAMESPACE, "acme", address).channel is channel
    assert contact_of(NAMESPACE, "acme", "https://user.example.com/a@b").channel is Channel.WEBHOOK


# --- recipients ----------------------------------------------------------------------------------


def test_what_a_row_changes() -> None:
    """Fields that are absent or empty are left alone, null clears, addresses bring their contacts."""
    made = RECIPIENTS.accept({**PERSON, "name": "Ana\nB", "zone": None, "locale": "", "phone": None})
    assert (made.id, made.ref) == (keys.recipient_id(NAMESPACE, "acme", "t1"), "t1")
    assert made.fields == {"name": "Ana B", "zone": None}
    assert {channel: one and one.address for channel, one in made.addresses.items()} == {
        Channel.EMAIL: "ana@example.com",
        Channel.SMS: None,
    }


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"id": None}, "id"),
        ({"id": ""}, "id"),
        ({"id": 4411}, "id"),
        ({"id": "a\0"}, "id"),
        ({"id": "x" * 1_000_000}, "id"),
        ({"name": "x" * 201}, "name"),
        ({"name": 1}, "name"),
        ({"email": "x"}, "email"),
        ({"phone": "911"}, "phone"),
        ({"webhook": "ftp://x"}, "webhook"),
        ({"zone": "Mars/Base"}, "zone"),
        ({"locale": "???"}, "locale"),
        ({"quiet_hours": "22-06"}, "quiet_hours"),
    ],
)
def test_what_is_wrong_of_a_recipient_is_named(changes: dict[str, Any], field: str) -> None:
    """The rejection names the field as it stands in the row."""
    made = answer(RECIPIENTS, {**PERSON, **changes})
    assert isinstance(made, Rejection)
    assert made.field == field


# --- hostile -------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", sorted(CONSENT_TABLE.columns))
def test_naughty_text_in_every_field_of_a_statement(field: str) -> None:
    """Each of the inputs that somebody will send one day is taken or refused, the same twice."""
    for text in NAUGHTY:
        first, second = (answer(CONSENT, {**STATEMENT, field: text}) for _ in range(2))
        assert str(first) == str(second)


@pytest.mark.parametrize("field", sorted(RECIPIENT_TABLE.columns))
def test_naughty_text_in_every_field_of_a_recipient(field: str) -> None:
    """Each of the inputs that somebody will send one day is taken or refused, the same twice."""
    for text in NAUGHTY:
        first, second = (answer(RECIPIENTS, {**PERSON, field: text}) for _ in range(2))
        assert str(first) == str(second)


@given(ANYTHING)
def test_anything_may_stand_for_a_row(raw: Any) -> None:
    """Any value at all in place of a row is refused with a reason."""
    assert isinstance(answer(CONSENT, raw), Rejection)
    assert isinstance(answer(RECIPIENTS, raw), Rejection)


@given(st.dictionaries(st.sampled_from(sorted(CONSENT_TABLE.columns | RECIPIENT_TABLE.columns)), ANYTHING, max_size=3))
def test_any_field_of_a_list_may_hold_anything(changes: dict[str, Any]) -> None:
    """Any value in place of any field; the same row gets the same answer twice."""
    assert str(answer(CONSENT, {**STATEMENT, **changes})) == str(answer(CONSENT, {**STATEMENT, **changes}))
    assert str(answer(RECIPIENTS, {**PERSON, **changes})) == str(answer(RECIPIENTS, {**PERSON, **changes}))


def test_a_table_has_its_own_columns() -> None:
    """A CSV of another table takes its columns only, and rows keep their lines."""
    rows = list(read(io.BytesIO(b"kind; address\nbounce;a@example.com\n\nbounce;\n"), "csv", CONSENT_TABLE))
    assert rows == [(2, {"kind": "bounce", "address": "a@example.com"}), (4, {"kind": "bounce"})]
    with pytest.raises(InputError, match=r'column "to\.email" is no field'):
        list(read(io.BytesIO(b"id,to.email\n"), "csv", RECIPIENT_TABLE))
