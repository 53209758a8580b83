"""Dates and times are shown in the recipient's zone and locale, or refused with the place of what is no time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.content import Template, TemplateSet
from duly.content.templates import _Compiled, _names
from duly.content.times import STYLES, NotATime, Reader, is_moment, lateness
from duly.core.schedule import Slot
from duly.core.sms import Encoding, measure
from duly.errors import ConfigError, Unrenderable
from tests.core.values import claimed

DUE: Final = datetime(2026, 12, 1, 14, tzinfo=UTC)
NEW_YORK: Final = {"due_at": DUE, "recipient_zone": "America/New_York", "recipient_locale": "en"}


def rendered(text: str, data: dict[str, Any] | None = None, **more: Any) -> str:
    """What a text becomes for somebody in New York, unless it is said otherwise."""
    row = claimed(**{**NEW_YORK, "data": data or {}, **more})
    return TemplateSet({"note": Template("note", "", text)}).render(row).text


def reason(text: str, data: dict[str, Any]) -> str:
    """Why a text cannot be rendered."""
    with pytest.raises(Unrenderable) as caught:
        rendered(text, data)
    return str(caught.value)


# --- what is shown -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("{{ due_at | date }}", "Dec 1, 2026"),
        ("{{ due_at | time }}", "9:00 AM"),
        ("{{ due_at | datetime }}", "Dec 1, 2026, 9:00 AM"),
        ("{{ due_at | date('short') }}", "12/1/26"),
        ("{{ due_at | date('long') }}", "December 1, 2026"),
        ("{{ due_at | date('full') }}", "Tuesday, December 1, 2026"),
        ("{{ due_at | datetime('short') }}", "12/1/26, 9:00 AM"),
        ("{{ due_at | time('full') }}", "9:00:00 AM Eastern Standard Time"),
        ("{{ due_at.date() | date }}", "Dec 1, 2026"),
    ],
)
def test_the_due_time_in_every_style(text: str, shown: str) -> None:
    """The due time is shown in the recipient's zone, in the style that the template names."""
    assert rendered(text) == shown


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("2026-12-01T14:00:00Z", "Dec 1, 2026, 9:00 AM"),
        ("2026-12-01T14:00:00.123456+00:00", "Dec 1, 2026, 9:00 AM"),
        ("2026-07-01T14:00:00Z", "Jul 1, 2026, 10:00 AM"),
        ("2026-12-02T03:00:00Z", "Dec 1, 2026, 10:00 PM"),
        ("2026-12-01T14:00", "Dec 1, 2026, 2:00 PM"),
    ],
)
def test_times_of_the_data(written: str, shown: str) -> None:
    """An instant of the data is shown in the recipient's zone, a local time as it stands."""
    assert rendered("{{ data.starts_at | datetime }}", {"starts_at": written}) == shown


@pytest.mark.parametrize(
    ("label", "shown"), [("-PT24H", "Dec 2, 2026, 9:00 AM"), ("-PT1H30M#2", "Dec 1, 2026, 10:30 AM"), ("once", "none")]
)
def test_the_anchor_is_told_by_the_label(label: str, shown: str) -> None:
    """What comes some time before something knows when that is, in the recipient's zone, in any generation."""
    words = "{% if starts_at %}{{ starts_at | datetime }}{% else %}none{% endif %}"
    assert rendered(words, occurrence=label) == shown


def test_a_reminder_without_an_anchor_has_none_to_show() -> None:
    """A template that shows it anyway cannot be rendered, and says what is missing; its import says so too."""
    assert reason("{{ starts_at | time }}", {}).endswith("give it starts_at and before")
    assert "starts_at is null" in reason("{{ starts_at }}", {})
    templates = TemplateSet({"note": Template("note", "", "{{ starts_at | time }}")})
    person = {"id": "a", "name": None, "zone": None, "locale": None}
    told = [templates.missing("note", {}, person, None, Slot(label, DUE)) for label in ("-PT1H", "2026-12-01T09:00")]
    assert told == [None, told[1]]
    assert "starts_at is null" in str(told[1])


def test_a_date_has_no_zone() -> None:
    """A day that stands alone is the same day everywhere; an instant's day is that of the recipient's zone."""
    assert rendered("{{ data.d | date }}", {"d": "2026-12-01"}) == "Dec 1, 2026"
    assert rendered("{{ data.d | date }}", {"d": "2026-12-01T03:00:00Z"}) == "Nov 30, 2026"


@pytest.mark.parametrize(
    ("locale", "shown"),
    [
        ("de", "Dienstag, 1. Dezember 2026, 09:00"),
        ("de-AT", "Dienstag, 1. Dezember 2026, 09:00"),
        ("de_XX", "Dienstag, 1. Dezember 2026, 09:00"),
        ("de-Latn-XX-x1", "Dienstag, 1. Dezember 2026, 09:00"),
        ("en-XX", "Tuesday, December 1, 2026, 9:00 AM"),
        ("xx", "Tuesday, December 1, 2026, 9:00 AM"),
        (None, "Tuesday, December 1, 2026, 9:00 AM"),
        ("-", "Tuesday, December 1, 2026, 9:00 AM"),
        ("../../de", "Tuesday, December 1, 2026, 9:00 AM"),
        ("de-" * 12 + "de", "Tuesday, December 1, 2026, 9:00 AM"),
    ],
)
def test_an_unknown_locale_falls_back(locale: str | None, shown: str) -> None:
    """A locale falls back to what is known of it, and to English."""
    assert rendered("{{ due_at | datetime('full') }}", recipient_locale=locale) == shown


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("locale", ["en", "fr", "de", "es"])
def test_no_blank_makes_an_sms_dearer(style: str, locale: str) -> None:
    """CLDR's no-break blanks are not shown: they are not in the alphabet of SMS."""
    text = f"{{{{ due_at | datetime('{style}') }}}} {{{{ due_at | time('short') }}}}"
    shown = rendered(text, recipient_locale=locale, due_at=DUE + timedelta(days=30))
    assert not set(shown) & set("\u00a0\u202f")
    assert measure(shown.replace("\u00e9", "e")).encoding is Encoding.GSM_7


def test_without_a_zone_it_is_utc() -> None:
    """A recipient whose zone is not known reads UTC."""
    assert rendered("{{ data.t | time }}", {"t": "2026-12-01T14:00:00+01:00"}, recipient_zone=None) == "1:00 PM"


def test_a_zone_that_this_machine_lacks_is_a_reason() -> None:
    """A time of the data needs the zone as much as the due time does."""
    with pytest.raises(Unrenderable, match="does not know the recipient's zone"):
        rendered("{{ data.t | time }}", {"t": "2026-12-01T14:00:00Z"}, recipient_zone="Mars/Olympus")


def test_the_reader_cannot_be_changed() -> None:
    """A template may use the names of the reader's zone and locale for something else."""
    text = "{% set recipient = {'zone': 'UTC', 'locale': 'de'} %}{{ due_at | datetime }}"
    assert rendered(text) == "Dec 1, 2026, 9:00 AM"


# --- what is no time -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "data", "words"),
    [
        ("a\n{{ data.at | date }}", {"at": "s3cret"}, "line 2: data.at is not a time; write one like 2026-"),
        ("{{ data.at | time }}", {"at": None}, "data.at is not a time"),
        ("{{ data.at | time }}", {"at": 1_790_000_000}, "data.at is not a time"),
        ("{{ data.at | time }}", {"at": "2026-12-01"}, "data.at is not a time"),
        ("{{ data.at | date }}", {"at": "2026-02-30"}, "data.at is not a time"),
        ("{{ data.at | datetime }}", {"at": "9999-12-31T23:59:59Z"}, "data.at is not a time"),
        ("{{ data.at | datetime }}", {"at": "1" * 1_000_000}, "data.at is not a time"),
        ("{{ data.at | date }}", {"at": ["s3cret"]}, "data.at is not a time"),
        ("{{ data.at | date }}", {}, "data.at is missing"),
        ("{{ data.a | date }}\n{{ data.b | date }}", {"a": "2026-12-01T10:00Z", "b": "x"}, "2: data.b is not"),
        ("{% for v in data.vs %}{{ v.at | date }}{% endfor %}", {"vs": [{"at": "x"}]}, "v.at is not a time"),
        ("{{ (data.at ~ 'x') | date }}", {"at": "2026-12-01"}, "what it shows as a time is not a time"),
        (
            "{% if data.z is defined %}{{ data.z | date }}{% endif %}{{ data.y.b | date }}",
            {"y": {"b": "x"}},
            "data.y.b is not a time",
        ),
        ("{{ due_at | date(data.style) }}", {"style": "s3cret"}, "is none of short, medium, long, full"),
        ("{{ data.at.b | date }}", {"at": None}, "data.at.b is missing"),
    ],
)
def test_what_is_no_time_is_told_with_its_place(text: str, data: dict[str, Any], words: str) -> None:
    """The reason names the place of what cannot be shown, and never the value."""
    told = reason(text, data)
    assert words in told
    assert "s3cret" not in told
    assert "\n" not in told


@pytest.mark.parametrize(
    "text",
    ["{{ due_at | date('fulll') }}", "{{ due_at | time(3) }}", "{{ due_at | datetime('full', 'UTC') }}",
     "{{ due_at | date(style='full') }}", "{{ due_at | date(*data.x) }}"],
)  # fmt: skip
def test_a_mistyped_style_is_found_at_once(text: str) -> None:
    """What is not one of four words in quotes is refused when the template is read."""
    with pytest.raises(ConfigError, match="takes one of short, medium, long, full, in quotes, or nothing"):
        TemplateSet({"note": Template("note", "", text)})


@given(st.text() | st.integers() | st.none() | st.booleans() | st.lists(st.text(), max_size=3), st.text())
def test_whatever_the_data_is_it_is_shown_or_refused(value: Any, locale: str) -> None:
    """No value and no locale gives anything but a text or a reason."""
    templates = TemplateSet({"note": Template("note", "", "{{ data.x | date }}{{ data.x | datetime('full') }}")})
    person = {"id": "a", "name": "Ana", "zone": "America/New_York", "locale": locale}
    why = templates.missing("note", {"x": value}, person)
    assert why is None or "data.x is not a time" in why


@given(st.datetimes(datetime(1970, 1, 2), datetime(2999, 12, 30)))  # noqa: DTZ001 - a local time is meant
def test_a_local_time_keeps_its_clock(moment: datetime) -> None:
    """A local time is shown as it is written, also where clocks change."""
    shown = rendered("{{ data.t | time }}", {"t": moment.isoformat(timespec="seconds")}, recipient_locale="de")
    assert shown == f"{moment:%H:%M}"


# --- lateness ------------------------------------------------------------------------------------


def late_text(text: str, late: timedelta | None, locale: str | None = "en") -> str:
    """What a text says that is so late."""
    names = _names({}, {"id": "a", "name": None, "zone": None, "locale": locale}, {}, Slot("once", DUE), late)
    return _Compiled(Template("note", "", text), 1_000).render(names).text


@pytest.mark.parametrize(
    ("late", "locale", "said"),
    [
        (None, "en", "on time"),
        (timedelta(0), "en", "on time"),
        (timedelta(minutes=-5), "en", "on time"),
        (timedelta(seconds=20), "en", "1 minute, 0"),
        (timedelta(hours=2, seconds=10), "en", "2 hours, 120"),
        (timedelta(hours=2), "de", "2 Stunden, 120"),
        (timedelta(days=3), "fr", "3 jours, 4320"),
        (timedelta(hours=2), "xx", "2 hours, 120"),
    ],
)
def test_how_late_it_is(late: timedelta | None, locale: str, said: str) -> None:
    """A late one says by how much in the recipient's words, one on time that it is."""
    text = "{% if late %}{{ late.by }}, {{ late.minutes }}{% else %}on time{% endif %}"
    assert late_text(text, late, locale) == said


def test_a_row_brings_its_lateness() -> None:
    """What a worker found to be late says by how much."""
    row = claimed(due_at=DUE, late=timedelta(hours=2))
    text = TemplateSet({"note": Template("note", "", "{{ late.by }} ({{ late.minutes }})")}).render(row).text
    assert text == "2 hours (120)"


def test_what_is_on_time_is_not_late() -> None:
    """Without lateness `late` is null, and what is printed of it is missing."""
    assert rendered("{% if late %}late{% endif %}.") == "."
    assert reason("{{ late.by }}", {}) == "template note, text, line 1: late.by is missing"
    with pytest.raises(ConfigError, match="late has no hours; it has by, minutes"):
        TemplateSet({"note": Template("note", "", "{{ late.hours }}")})


def test_what_is_a_moment() -> None:
    """A datetime and a text that means one are moments; other things are not."""
    assert is_moment(DUE)
    assert is_moment("2026-12-01T09:00")
    assert not is_moment("2026-12-01")
    assert issubclass(NotATime, Exception)
    assert lateness(None, Reader(UTC, None)) is None
