"""Templates say what they were written to say, or say in one line why they cannot."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.content import LATE_SUMMARY, Template, TemplateSet
from duly.core.model import Channel, Claimed, Content, Lane, Revisions
from duly.core.schedule import ONCE, Slot
from duly.errors import ConfigError, Unrenderable

DUE: Final = datetime(2026, 12, 1, 14, tzinfo=UTC)
ANA: Final = {"id": "recipient-17", "name": "Ana", "zone": "America/New_York", "locale": "en"}

JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)


def claimed(data: dict[str, Any], template: str = "note", **more: Any) -> Claimed:
    """A claimed row, of which only the words matter here."""
    fields: dict[str, Any] = {
        "id": b"d" * 16,
        "account_id": 1,
        "account": "harbour-lofts",
        "fence": 1,
        "attempts": 0,
        "spared": 0,
        "doubt": False,
        "closed": False,
        "granted": False,
        "first_unknown_at": None,
        "reminder": b"r" * 16,
        "reminder_key": "inspection-4411",
        "reminder_status": "active",
        "occurrence": "once",
        "lane": Lane.NORMAL,
        "due_at": DUE,
        "deadline_at": DUE + timedelta(hours=8),
        "lease_until": DUE + timedelta(minutes=1),
        "endpoint": bytes(16),
        "channel": Channel.EMAIL,
        "address": "ana@example.com",
        "recipient_ref": ANA["id"],
        "recipient_name": ANA["name"],
        "recipient_zone": ANA["zone"],
        "recipient_locale": ANA["locale"],
        "template": template,
        "data": data,
        "revisions": Revisions(1, 1, 1, 1),
        "account_paused": False,
        "suppressed": None,
        "block": None,
        "frozen": None,
    }
    return Claimed(**{**fields, **more})


def one(text: str, subject: str = "", html: str | None = None) -> TemplateSet:
    """A set of one template, called note."""
    return TemplateSet({"note": Template("note", subject, text, html)})


def summary(*parts: tuple[str, str], **more: Any) -> Content:
    """What the summary that everybody has tells of parts with these subjects and texts."""
    data = {"reminders": [{"subject": subject, "text": text} for subject, text in parts]}
    return TemplateSet({LATE_SUMMARY.name: LATE_SUMMARY}).render(claimed(data, LATE_SUMMARY.name, **more))


def rendered(text: str, data: dict[str, Any], **more: Any) -> str:
    """What the text of a template becomes."""
    return one(text).render(claimed(data, **more)).text


def reason(text: str, data: dict[str, Any], subject: str = "", html: str | None = None) -> str | None:
    """Why a template cannot be rendered for Ana."""
    return one(text, subject, html).missing("note", data, ANA, {"key": "k", "account": "a"}, Slot(ONCE, DUE))


# --- what a template says ------------------------------------------------------------------------


def test_all_parts_are_rendered() -> None:
    """Subject, text and HTML come out with the version of their source."""
    template = Template("note", "Inspection on {{ data.day }}", "Hello {{ recipient.name }}", "<p>{{ data.day }}</p>")
    content = TemplateSet({"note": template}).render(claimed({"day": "Tuesday"}))
    assert content == Content("Inspection on Tuesday", "Hello Ana", "<p>Tuesday</p>", template.version)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("{{ recipient.id }} {{ recipient.name }} {{ recipient.zone }} {{ recipient.locale }}",
         "recipient-17 Ana America/New_York en"),
        ("{{ reminder.key }} {{ reminder.account }} {{ occurrence }}", "inspection-4411 harbour-lofts once"),
        ("{{ due_at.isoformat() }}", "2026-12-01T09:00:00-05:00"),
        ("{{ due_at.strftime('%d %B, %H:%M') }}", "01 December, 09:00"),
        ("{% for i in range(3) %}{{ i }}{% endfor %}", "012"),
        ("{% for x in data.xs %}{{ loop.index }}/{{ loop.length }}{{ x.name }} {% endfor %}", "1/2a 2/2b "),
        ("{% for x in data.xs if x.name != 'a' %}{{ x.name }}{% else %}none{% endfor %}", "b"),
        ("{% for k, v in data.map.items() %}{{ k }}={{ v }};{% endfor %}", "x=1;"),
        ("{{ data['unit'] }}{{ data.xs[1].name }}", "4Bb"),
        ("{% set u = data.unit %}{{ u|lower }}", "4b"),
        ("{{ '%.2f'|format(data.amount) }}", "12.50"),
        ("{{ data.amount * 2 }} {{ 2 ** 8 }} {{ 'ab' * 2 }}", "25.0 256 abab"),
        ("{{ data.absent|default('-') }}{{ data.nothing or '-' }}", "--"),
        ("{% if data.absent is defined %}yes{% else %}no{% endif %}", "no"),
        ("{% if data.nothing %}yes{% else %}no{% endif %}", "no"),
        ("line\n", "line\n"),
        ("{{ data.true }} {{ data.zero }}", "True 0"),
    ],
)  # fmt: skip
def test_the_names_that_a_template_may_use(text: str, result: str) -> None:
    """What the module's page promises to a template's author is there."""
    data = {
        "unit": "4B", "xs": [{"name": "a"}, {"name": "b"}], "map": {"x": 1}, "amount": 12.5,
        "nothing": None, "true": True, "zero": 0,
    }  # fmt: skip
    assert rendered(text, data) == result


def test_the_due_time_is_utc_without_a_zone() -> None:
    """A recipient whose zone is not known reads the due time in UTC."""
    assert rendered("{{ due_at.isoformat() }}", {}, recipient_zone=None) == "2026-12-01T14:00:00+00:00"


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../../etc/passwd", "Europe", "\0"])
def test_a_zone_that_this_machine_lacks_is_a_reason(zone: str) -> None:
    """Zone data differs between machines: the row then waits for a person, who reads what to update."""
    with pytest.raises(Unrenderable, match="does not know the recipient's zone"):
        rendered("{{ due_at }}", {}, recipient_zone=zone)


def test_a_zone_matters_only_if_the_time_is_shown() -> None:
    """A template that does not show the due time never asks for the zone."""
    assert rendered("hello", {}, recipient_zone="Mars/Olympus") == "hello"


def test_a_key_of_the_data_comes_before_a_method() -> None:
    """`items`, `keys` and `values` are fine names for data."""
    assert rendered("{{ data.items }} {{ data.values }}", {"items": "3 chairs", "values": 7}) == "3 chairs 7"


@given(st.text())
def test_data_is_never_a_template(word: str) -> None:
    """Whatever stands in the data is text: it comes out as it went in."""
    for value in (word, "{{ 7*7 }}", "{% for x in range(9) %}{{ x }}{% endfor %}", "{# " + word):
        assert rendered("{{ data.x }}", {"x": value}) == value


@given(st.text(st.sampled_from("<>&\"'ab")))
def test_only_html_is_escaped(word: str) -> None:
    """Text and subject are plain; in HTML nothing of the data can open a tag or an attribute."""
    content = one("{{ data.x }}", "|{{ data.x }}|", "{{ data.x }}").render(claimed({"x": word}))
    assert (content.text, content.subject) == (word, f"|{word}|")
    assert content.html is not None
    assert not set(content.html) & set("<>\"'")


@pytest.mark.parametrize(
    ("word", "subject"),
    [
        ("Rent\r\nBcc: all@example.com", "Rent Bcc: all@example.com"),
        (" \t many\x1b\x07\nlines\u2028", "many lines"),
        ("x" * 2_000, "x" * 998),
    ],
)
def test_a_subject_is_one_bounded_line(word: str, subject: str) -> None:
    """Line breaks cannot start another header, and RFC 5322's 998 characters are never passed."""
    assert one("", "{{ data.x }}").render(claimed({"x": word})).subject == subject


# --- versions ------------------------------------------------------------------------------------


def test_the_version_is_of_the_content() -> None:
    """The same source has the same version under any name; moving a letter between the parts makes another."""
    expected = hashlib.sha256(b"\0\0\0\x01s\0\0\0\x01t").hexdigest()[:12]
    assert Template("a", "s", "t").version == Template("b", "s", "t").version == expected
    sources = [("s", "t"), ("st", ""), ("", "st"), ("s", "t", ""), ("s", "t", "h")]
    assert len({Template("a", *source).version for source in sources}) == len(sources)


# --- templates that cannot be read ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fine\n{{ data.x", "line 2: unexpected end of template"),
        ("{% if %}", "line 1: Expected an expression"),
        ("\n\n{{ data.x|nope }}", "line 3: No filter named 'nope'"),
        ("{{ datta.x }}", "line 1: there is no datta; a template knows data, due_at,"),
        ("{% if x is defined %}{% endif %}", "there is no x"),
        ("a\n{{ recipient.email }}", "line 2: recipient has no email; it has id, locale, name, zone"),
        ("{{ reminder.id }}", "reminder has no id; it has account, key"),
        ("{% macro m() %}{% endmacro %}", "{% macro %} is not part"),
        ("{% call data.x() %}{% endcall %}", "{% call %} is not part"),
        ("{% block b %}{% endblock %}", "{% block %} is not part"),
        ("{% include 'x' %}", "{% include %} is not part"),
        ("{% import 'x' as x %}", "{% import %} is not part"),
        ("{% from 'x' import y %}", "{% from %} is not part"),
        ("{% extends 'x' %}", "{% extends %} is not part"),
        ("{% for x in data.xs recursive %}{% endfor %}", "recursive loops are not part"),
        ("{{ data.xs|random }}", "No filter named 'random'"),
        ("{{ lipsum() }}", "there is no lipsum"),
        ("{{ namespace(x=1) }}", "there is no namespace"),
        ("\ud800", "half a surrogate pair"),
        ("{{" + "(" * 3_000, "cannot be compiled (RecursionError)"),
        ("{% for a in data.x %}" * 30 + "{% endfor %}" * 30, "cannot be compiled (SyntaxError)"),
    ],
)  # fmt: skip
def test_a_template_that_cannot_be_read(text: str, words: str) -> None:
    """The complaint comes when the configuration is read, and names template, part and line."""
    with pytest.raises(ConfigError, match=r"^template note, text") as caught:
        one(text)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("part", ["subject", "text", "html"])
def test_the_broken_part_is_named(part: str) -> None:
    """A fault in any part is found, and the part is named."""
    with pytest.raises(ConfigError, match=f"^template note, {part}, line 1"):
        TemplateSet({"note": Template("note", **{"subject": "", "text": "", part: "{{"})})


# --- rows that cannot be rendered ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "data", "words"),
    [
        ("{{ data.unit }}", {}, "line 1: data.unit is missing"),
        ("a\n\n{{ data.a.b.c }}", {"a": {}}, "line 3: data.a.b is missing"),
        ("{{ data['unit'] }}", {}, "data.unit is missing"),
        ("{{ data.xs[2] }}", {"xs": [1]}, "data.xs.2 is missing"),
        ("{{ data.unit|upper }}", {}, "data.unit is missing"),
        ("{{ data.unit.upper() }}", {}, "data.unit is missing"),
        ("{% if data.vip %}{% endif %}", {}, "data.vip is missing"),
        ("{% for x in data.xs %}{% endfor %}", {}, "data.xs is missing"),
        ("{% for x in data.xs %}\n{{ x.price }}{% endfor %}", {"xs": [{}]}, "line 2: x.price is missing"),
        ("{{ data[data.which] }}", {"which": "s3cret"}, "a name that it looks up is missing"),
        ("{{ [].name }}", {}, "a name that it looks up is missing"),
        ("{{ data.unit }}", {"unit": None}, "data.unit is null, and it is printed"),
        ("{{ data.a }}\n{{ data.b }}", {"a": 1, "b": None}, "line 2: data.b is null"),
        ("{{ data.unit or data.other }}", {"unit": "", "other": None}, "null, or a method, is printed"),
        ("{{ data.items }}", {}, "data.items is missing"),
        ("{{ data.unit.upper }}", {"unit": "a"}, "null, or a method, is printed"),
        ("{{ data.xs|first }}", {"xs": []}, "No first item, sequence was empty."),
        ("{{ 1 / data.x }}", {"x": 0}, "it fails with this data (ZeroDivisionError)"),
        ("{{ data.x + 1 }}", {"x": "s3cret"}, "it fails with this data (TypeError)"),
        ("{{ data.x() }}", {"x": "s3cret"}, "it fails with this data (TypeError)"),
        ("{{ '\\ud800' }}", {}, "it fails with this data (UnicodeEncodeError)"),
        ("{{ data.__class__ }}", {}, "the sandbox keeps away"),
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", {}, "the sandbox keeps away"),
        ("{{ data.f.format(data) }}", {"f": "{0.__class__}"}, "the sandbox keeps away"),
        ("{{ data.xs.append(1) }}", {"xs": []}, "the sandbox keeps away"),
        ("{{ due_at.now() }}", {}, "the sandbox keeps away"),
        ("{{ due_at.today() }}", {}, "the sandbox keeps away"),
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_rendered(text: str, data: dict[str, Any], words: str) -> None:
    """The reason names template, part, line and name; a value of the data is never in it."""
    with pytest.raises(Unrenderable, match=r"^template note, text") as caught:
        rendered(text, data)
    assert words in str(caught.value)
    assert "s3cret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_an_unknown_template_is_a_reason() -> None:
    """A reminder may outlive its template."""
    with pytest.raises(Unrenderable, match="template gone is not configured"):
        one("").render(claimed({}, "gone"))


@pytest.mark.parametrize(
    ("text", "data", "words"),
    [
        ("{{ data.x }}", {"x": "x" * 102_401}, "longer than 102,400 bytes"),
        ("{{ data.x }}", {"x": "\u20ac" * 40_000}, "longer than 102,400 bytes"),
        ("{% for i in range(1000) %}{{ data.x }}{% endfor %}", {"x": "x" * 1_000}, "longer than 102,400 bytes"),
        ("{% for i in range(data.n) %}{% endfor %}", {"n": 10**12}, "a range has more than 1,000 numbers"),
        ("{% for a in data.x %}{% for b in data.x %}{% endfor %}{% endfor %}", {"x": ["a"] * 9_000}, "10,000 turns"),
        ("{% for a in data.x if a == 'b' %}{% endfor %}", {"x": ["a"] * 10_001}, "10,000 turns"),
        ("{{ data.x * data.n }}", {"x": "x", "n": 2**62}, "repeated to over 100,000 items"),
        ("{{ data.n * data.x }}", {"x": [1], "n": 2**62}, "repeated to over 100,000 items"),
        ("{{ data.n ** data.n }}", {"n": 2**62}, "an exponent is over 64"),
    ],
)
def test_no_data_makes_a_rendering_endless(text: str, data: dict[str, Any], words: str) -> None:
    """Every loop, power and repetition is bounded, and so is what comes out."""
    assert words in str(reason(text, data))


# --- asking at import ----------------------------------------------------------------------------


@given(st.dictionaries(st.sampled_from(["a", "b", "items"]), JSON))
def test_missing_tells_what_render_will_do(data: dict[str, Any]) -> None:
    """A row without a reason renders, and one with a reason does not, for the same reason."""
    templates = one("{% for x in data.items %}{{ x.b }}{% endfor %}{{ data.a }}", "{{ data.b|length }}", "{{ data.a }}")
    try:
        templates.render(claimed(data))
        expected = None
    except Unrenderable as error:
        expected = str(error)
    assert templates.missing("note", data, ANA, {"key": "k", "account": "a"}, Slot(ONCE, DUE)) == expected


def test_all_parts_are_asked() -> None:
    """A name that only the HTML uses is missed as well."""
    assert reason("", {}, html="{{ data.logo }}") == "template note, html, line 1: data.logo is missing"
    assert reason("", {}, subject="{{ data.day }}") == "template note, subject, line 1: data.day is missing"


def test_a_recipient_without_a_name_is_missed() -> None:
    """Nobody is greeted as None."""
    nameless = {**ANA, "name": None}
    why = one("Hello {{ recipient.name }}").missing("note", {}, nameless)
    assert why == "template note, text, line 1: recipient.name is null, and it is printed"


def test_an_unknown_recipient_is_given_the_benefit() -> None:
    """Where only his id is known, what is printed of him is not missed, but data still is."""
    templates = one("Hello {{ recipient.name|upper }}, {{ due_at }}: {{ data.unit }}")
    assert templates.missing("note", {"unit": "4B"}, None) is None
    assert templates.missing("note", {}, None) == "template note, text, line 1: data.unit is missing"


@pytest.mark.parametrize("condition", ["recipient.locale == 'de'", "recipient.name", "not recipient.zone"])
def test_a_template_that_decides_by_an_unknown_recipient_is_not_tried(condition: str) -> None:
    """Which words it will need cannot be known then."""
    templates = one("{% if " + condition + " %}{{ data.german }}{% else %}{{ data.english }}{% endif %}")
    assert templates.missing("note", {}, None) is None
    assert templates.missing("note", {}, ANA) is not None


def test_a_set_is_asked_for_its_names() -> None:
    """Intake looks a template up by name, and suggests the others."""
    templates = TemplateSet({"a": Template("a", "", ""), "b": Template("b", "", "")})
    assert "a" in templates
    assert "c" not in templates
    assert list(templates) == ["a", "b"]


@given(st.dictionaries(st.text(), JSON), st.text())
def test_no_data_breaks_a_rendering(data: dict[str, Any], name: str) -> None:
    """Any JSON is rendered or refused with one line."""
    text = "{{ data.a }}{{ data|length }}{% for k, v in data.items() %}{{ k }}{{ v }}{% endfor %}{{ recipient.name }}"
    templates = one(text, "{{ recipient.name }}", "{{ recipient.name }}")
    why = templates.missing("note", data, {**ANA, "name": name})
    assert why is None or (why.startswith("template note, ") and len(why.splitlines()) == 1)


# --- summaries -----------------------------------------------------------------------------------


def test_a_summary_of_several_tells_them_one_below_the_other() -> None:
    """Each with its subject, if it has one; the number of them is the subject of all."""
    told = summary(("Visit", "We come at 10.\n"), ("", "Bring the key."), ("Rent", "It is due."))
    assert told.subject == "3 reminders"
    assert told.text == "Visit\nWe come at 10.\n\nBring the key.\n\nRent\nIt is due.\n"
    assert told.html is None


def test_a_summary_of_one_says_what_that_said() -> None:
    """It has its subject and its text, and no headline."""
    assert summary(("Visit", "We come at 10."))[:2] == ("Visit", "We come at 10.\n")


def test_a_summary_by_sms_is_bound_by_its_segments() -> None:
    """What is too long for an SMS is not sent as one: its parts go alone."""
    with pytest.raises(Unrenderable, match="segments"):
        summary(*[("", "x" * 140)] * 50, channel=Channel.SMS)
