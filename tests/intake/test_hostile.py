"""Whatever is sent: a reminder that every database can keep, or a rejection; never anything else, and soon."""

from __future__ import annotations

import contextlib
import io
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.core.model import NewReminder
from duly.core.text import is_recordable
from duly.intake import RejectedFile, Rejection, read, read_schedule
from duly.intake.fields import FIELDS, RECIPIENT_FIELDS
from tests.intake.samples import NAUGHTY, intake, row

SECONDS_MAX: Final = 1.0
INTAKE: Final = intake()
NOW: Final = datetime(2026, 3, 1, tzinfo=UTC)

SCALARS: Final = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.sampled_from(NAUGHTY),
    st.binary(),
    st.datetimes(),
)
ANYTHING: Final = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text() | st.integers(), inner, max_size=4),
    max_leaves=8,
)
#: Rows that are right in most fields, because a row that is wrong everywhere is refused by its first field.
ROWS: Final = st.builds(
    lambda changes, to: row(**{**changes, **to}),
    st.dictionaries(st.sampled_from(sorted(FIELDS)), ANYTHING, max_size=2),
    st.one_of(
        st.just({}),
        st.dictionaries(st.sampled_from(sorted(RECIPIENT_FIELDS)), ANYTHING, max_size=3).map(
            lambda parts: {"to": {"id": "r", "email": "a@example.com", **parts}}
        ),
        st.dictionaries(st.text(), ANYTHING, max_size=4).map(lambda data: {"data": data}),
    ),
)


@contextmanager
def soon() -> Iterator[None]:
    """What is inside takes less than a second."""
    began = time.process_time()
    yield
    assert time.process_time() - began < SECONDS_MAX


def answer(raw: Any) -> NewReminder | Rejection:
    """What becomes of a row."""
    try:
        return INTAKE.accept(raw)
    except Rejection as rejection:
        return rejection


def check(raw: Any) -> NewReminder | Rejection:
    """Accept or reject, soon; an accepted row is fit for any database, and a reason is one line."""
    with soon():
        asked = intake().asks_zone(raw)
        made = answer(raw)
    assert asked is None or all(map(is_recordable, asked))
    if isinstance(made, Rejection):
        assert len(str(made).splitlines()) == 1
        assert len(str(made)) < 500
        assert is_recordable(str(made))
        return made
    texts = [made.key, made.account, made.recipient_ref, made.recipient_name or "", made.data, made.to, made.purpose]
    texts += [contact.address for contact in made.contacts]
    assert all(map(is_recordable, texts))
    assert not any("\\u0000" in text.replace("\\\\", "") for text in (made.data, made.to))
    assert json.loads(made.data) is not None
    assert made.deadline_at > made.next_due_at
    return made


@given(ANYTHING)
def test_anything_may_be_submitted(raw: Any) -> None:
    """Any value at all in place of a row."""
    check(raw)
    assert not isinstance(raw, dict) or isinstance(check(raw), Rejection)


@given(ROWS)
def test_any_field_may_hold_anything(raw: dict[str, Any]) -> None:
    """Any value in place of any field; the same row gets the same answer twice."""
    first, second = check(raw), check(raw)
    assert str(first) == str(second)


@pytest.mark.parametrize("field", [*sorted(FIELDS), *(f"to.{name}" for name in sorted(RECIPIENT_FIELDS)), "data.x"])
def test_naughty_text_in_every_field(field: str) -> None:
    """Each of the inputs that somebody will send one day, in each field in turn."""
    group, _, name = field.partition(".")
    for text in NAUGHTY:
        changes: dict[str, Any] = {"to": {"id": "r", "email": "a@example.com"}, "channels": ["email"], "data": {}}
        if name:
            changes[group][name] = text
        else:
            changes[group] = text
        check(row(**changes))
        check(row(**{**changes, "template": "inspection", "data": {"unit": text}}))


HOSTILE_RULES: Final = (
    "FREQ=MINUTELY;BYMONTH=2;BYMONTHDAY=30",
    "FREQ=MINUTELY;INTERVAL=2;BYMINUTE=" + ",".join(map(str, range(1, 60, 2))),
    "FREQ=MINUTELY;INTERVAL=999999;BYHOUR=3;BYMINUTE=7",
    "FREQ=HOURLY;INTERVAL=24;BYHOUR=3",
    "FREQ=YEARLY;INTERVAL=1000000;BYDAY=-53SU",
    "FREQ=YEARLY;BYHOUR=" + ",".join(map(str, range(24))) + ";BYMINUTE=" + ",".join(map(str, range(60))),
    "FREQ=YEARLY;BYSETPOS=-366;BYDAY=MO;BYHOUR=1,2,3,4,5,6,7,8",
    "FREQ=WEEKLY;BYDAY=MO;BYSETPOS=366;BYHOUR=1,2",
    "FREQ=DAILY;INTERVAL=7;BYDAY=SA;COUNT=10000",
    "FREQ=HOURLY;BYMONTH=2;BYMONTHDAY=29;BYHOUR=3;COUNT=10000",
    "FREQ=MINUTELY;BYYEARDAY=366;BYDAY=MO;BYHOUR=3;BYMINUTE=3;COUNT=10000",
    "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;COUNT=10000",
    "FREQ=YEARLY;BYYEARDAY=366;BYDAY=MO;COUNT=10000",
    "FREQ=MINUTELY;BYDAY=MO;BYHOUR=4;COUNT=10000",
    "RRULE:FREQ=DAILY\nEXDATE:" + ",".join(f"2027{month:02}01T090000" for month in range(1, 13)),
    "FREQ=DAILY;UNTIL=99991231T235959Z",
    "FREQ=DAILY;BYHOUR=" + "9," * 100_000 + "9",
    "FREQ=DAILY;" * 50_000,
    "RDATE:" + "20270101T090000," * 200,
    "\n" * 500_000,
    "* " * 500_000,
    "0 9 */9999 * *",
    "0 0 29 2 MON#5",
    "* * 29 2 +MON",
    "0 9 * * " + "MON," * 100 + "MON",
    "@" * 1_000_000,
    "FREQ=DAILY\0",
    "FREQ=\ud800",
    "\u0130" * 100,
)


@pytest.mark.parametrize("text", HOSTILE_RULES, ids=range(len(HOSTILE_RULES)))
def test_hostile_rules(text: str) -> None:
    """A rule is read or refused within a second, whatever it asks for, and so is a schedule that begins now."""
    for changes in ({}, {"notify_at": ...}, {"notify_at": "2999-12-31T23:59:59Z"}, {"notify_at": "1970-01-01T00:00"}):
        with soon():
            assert isinstance(
                answer(row(**{"zone": "America/New_York", "repeat": text, **changes})), (NewReminder, Rejection)
            )
        with soon(), contextlib.suppress(Rejection):
            read_schedule({"repeat": text, "notify_at": "2026-12-01T09:00", "zone": "Europe/Berlin"}, None, NOW)


@pytest.mark.parametrize(
    "before", [["PT1H"] * 21, [["PT1H"]], "PT1H", {}, [None], [""], ["PT1H", "PT60M"], ["x" * 1_000_000]]
)
def test_hostile_offsets(before: Any) -> None:
    """Offsets that are none are refused."""
    found = check(row(notify_at=..., starts_at="2026-12-01T09:00Z", before=before))
    assert isinstance(found, Rejection)
    assert found.field == "before"


@pytest.mark.parametrize("text", ["{{ 7*7 }}", "{% raw %}", "${7*7}", "<b>", "'; DROP TABLE reminder; --"])
def test_injections_stay_text(text: str) -> None:
    """They are kept as they are, in names and in data."""
    made = check(row(data={"x": text}, to={"id": text, "name": text, "email": "a@example.com"}))
    assert isinstance(made, NewReminder)
    assert json.loads(made.data) == {"x": text}
    assert (made.recipient_ref, made.recipient_name) == (text, text)


@pytest.mark.parametrize("depth", [21, 300, 1_000, 100_000])
@pytest.mark.parametrize(
    "field",
    [
        "data",
        "to",
        "channels",
        "idempotency_key",
        "event_version",
        "repeat",
        "starts_at",
        "before",
        "missed",
        "grace",
    ],
)
def test_deep_nesting_anywhere(field: str, depth: int) -> None:
    """No depth reaches a limit of Python's."""
    found: Any = "x"
    for level in range(depth):
        found = {"x": found} if level % 2 else [found]
    assert isinstance(check(row(**{field: {"x": found} if field in ("data", "to") else found})), Rejection)


GOOD: Final = json.dumps(row(to={"email": "a@example.com", "name": "\0\ud800"})).encode().removesuffix(b"}")
LINES: Final = (
    b'{"idempotency_key":"\\ud800","account":"a"}',
    GOOD + b',"data":{"\\u0000\\udfff":"\\u0000","n":1e400}}',
    GOOD + b',"data":{"\\u0000\\udfff":"\\u0000\\ud800"}}',
    b'{"data":{"n":' + b"9" * 400 + b"}}",
    b'{"data":' + b"[" * 500 + b"]" * 500 + b"}",
    b'{"data":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    b'{"a":' + b'"\\ud800",' * 50_000,
    b"\xff\xfe\x00",
    b'{"' + b"x" * 1_000_000 + b'":1}',
    b"{" * 1_000_000,
)


@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
def test_hostile_lines_end_as_rows_or_reasons(tmp_path: Path, line: bytes) -> None:
    """From the bytes of a file to the file of rejected rows, nothing breaks and nothing lasts."""
    with soon(), RejectedFile(tmp_path / "in.jsonl") as rejects:
        for number, found in read(io.BytesIO(b'{"first":1}\n' + line), "jsonl"):
            answer = found if isinstance(found, Rejection) else check(found)
            if isinstance(answer, Rejection):
                rejects.write(number, answer, None if isinstance(found, Rejection) else found)
    kept = [json.loads(entry) for entry in (tmp_path / "in.jsonl.rejected.jsonl").read_bytes().splitlines()]
    assert kept[0]["line"] == 1
    assert all(entry["reason"] for entry in kept)
