"""Rules and expressions mean here what they mean elsewhere: the cases of four projects, and where Duly differs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import groupby, islice, product
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim, CronSimError
from dateutil.rrule import rrulestr
from hypothesis import given, settings
from hypothesis import strategies as st

from duly.core.schedule import Schedule, first, following, read_repeat, slots_since
from tests.core.schedule.values import utc

FOLDER: Final = Path(__file__).parent / "published"
RIGA: Final = ZoneInfo("Europe/Riga")
DAY: Final = timedelta(days=1)
FORMAT: Final = "%Y%m%dT%H%M%S"


def cases(name: str, parts: int) -> list[list[str]]:
    """The lines of a file, each in so many parts."""
    lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    rows = [[part.strip() for part in line.split("|")] for line in lines if line and not line.startswith("#")]
    return [row + [""] * (parts - len(row)) for row in rows]


def refusal(text: str, start: datetime) -> str:
    """Why a rule is not taken; nothing if it is, and has a firing."""
    try:
        first(Schedule(start, read_repeat(text, start)), UTC)
    except ValueError as error:
        return str(error)
    return ""


def fired(text: str, start: datetime, count: int, zone: tzinfo = UTC) -> list[datetime]:
    """The first instants of a rule, asked for one by one."""
    schedule = Schedule(start, read_repeat(text, start))
    found = [first(schedule, zone)]
    while len(found) < count and (behind := following(schedule, zone, found[-1].label)):
        found.append(behind)
    return [slot.due_at for slot in found]


# --- libical -------------------------------------------------------------------------------------


def instants(text: str, start: datetime) -> Iterator[datetime]:
    """The instants of a case, written as its file says."""
    for word in filter(None, text.split(",")):
        begin, _, end = word.partition("..")
        moment, last = (_instant(part or begin, start) for part in (begin, end))
        while moment <= last:
            yield moment
            moment += DAY


def _instant(word: str, start: datetime) -> datetime:
    return datetime.strptime(word if "T" in word else f"{word}T{start:%H%M%S}", FORMAT).replace(tzinfo=UTC)


@pytest.mark.parametrize(("begin", "rule", "wanted", "difference"), cases("libical.txt", 4))
def test_rules_of_libical(begin: str, rule: str, wanted: str, difference: str) -> None:
    """Each has the firings that libical gives it, and no other; or differs for the reason that is written there."""
    start = datetime.strptime(begin.removesuffix("Z"), FORMAT)  # noqa: DTZ007 - wall time, as the RFC's floating times
    reason, words = refusal(rule, start), difference.partition("refused: ")[2]
    expected = list(instants(wanted, start))
    if words or reason:
        assert words
        assert words in reason
    else:
        assert (fired(rule, start, len(expected) + 1) == expected) is not bool(difference)


# --- dateutil ------------------------------------------------------------------------------------

STARTS: Final = datetime(1997, 9, 2, 9)  # noqa: DTZ001 - wall time
PARTS: Final = (
    "",
    "INTERVAL=2",
    "INTERVAL=18",
    "INTERVAL=20",
    "INTERVAL=100",
    "BYMONTH=1,3",
    "BYMONTHDAY=1,3",
    "BYMONTH=1,3;BYMONTHDAY=5,7",
    "BYDAY=TU,TH",
    "BYDAY=1TU,-1TH",
    "BYDAY=3TU,-3TH",
    "BYMONTH=1,3;BYDAY=TU,TH",
    "BYMONTH=1,3;BYDAY=1TU,-1TH",
    "BYMONTH=1,3;BYDAY=3TU,-3TH",
    "BYMONTHDAY=1,3;BYDAY=TU,TH",
    "BYMONTH=1,3;BYMONTHDAY=1,3;BYDAY=TU,TH",
    "BYYEARDAY=1,100,200,365",
    "BYYEARDAY=-365,-266,-166,-1",
    "BYMONTH=4,7;BYYEARDAY=1,100,200,365",
    "BYMONTH=4,7;BYYEARDAY=-365,-266,-166,-1",
    "BYWEEKNO=20",
    "BYWEEKNO=1;BYDAY=MO",
    "BYWEEKNO=52;BYDAY=SU",
    "BYWEEKNO=-1;BYDAY=SU",
    "BYWEEKNO=53;BYDAY=MO",
    "BYHOUR=6,18",
    "BYMINUTE=6,18",
    "BYSECOND=6,18",
    "BYHOUR=6,18;BYMINUTE=6,18",
    "BYHOUR=6,18;BYSECOND=6,18",
    "BYMINUTE=6,18;BYSECOND=6,18",
    "BYHOUR=6,18;BYMINUTE=6,18;BYSECOND=6,18",
    "BYMONTHDAY=15;BYHOUR=6,18;BYSETPOS=3,-3",
    "BYMONTHDAY=13,17;BYHOUR=6,18;BYSETPOS=3,-3",
    "BYDAY=TU,TH;BYHOUR=6,18;BYSETPOS=3,-3",
    "BYHOUR=6,18;BYMINUTE=15,45;BYSETPOS=3,-3",
    "BYMINUTE=15,30,45;BYSECOND=30;BYSETPOS=3,-3",
    "BYDAY=MO,FR;BYSETPOS=1",
    "INTERVAL=2;BYDAY=TU,SU;WKST=MO",
    "INTERVAL=2;BYDAY=TU,SU;WKST=SU",
    "BYYEARDAY=366",
    "BYMONTH=2;BYMONTHDAY=29",
)
FREQUENCIES: Final = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY")
#: Rules that are not taken, by the words of their refusal. The RFC forbids the first two, dateutil takes them.
REFUSED: Final = ("RFC 5545, 3.3.10", "BYSETPOS chooses nothing", "BYSECOND names several", "it never fires")
#: What the start implies: dateutil 2 to 4 let a week number choose all its days, and a day of the month choose it
#: in every month. The RFC (3.3.10) takes the missing part from the start, and so do libical and dateutil's own newer
#: cases (testYearlyByMonthDayUsesDtstartMonth).
IMPLIED: Final = frozenset(
    {
        "FREQ=YEARLY;BYWEEKNO=20",
        "FREQ=YEARLY;BYMONTHDAY=1,3",
        "FREQ=YEARLY;BYMONTHDAY=13,17;BYHOUR=6,18;BYSETPOS=3,-3",
    }
)
#: dateutil begins the first week at the start, and lets BYSETPOS count from there. The set of a rule is that of whole
#: periods here, as it is for months and years there.
FIRST_WEEK: Final = frozenset({"FREQ=WEEKLY;BYDAY=MO,FR;BYSETPOS=1"})


@pytest.mark.parametrize("rule", [f"FREQ={freq};{parts}".rstrip(";") for freq, parts in product(FREQUENCIES, PARTS)])
def test_rules_of_dateutil(rule: str) -> None:
    """The combinations of dateutil's tests/test_rrule.py, each in every frequency, fire as dateutil fires them."""
    reason = refusal(rule, STARTS)
    if reason:
        assert reason.rpartition("(")[2].rstrip(")") in REFUSED or reason.startswith(REFUSED)
        return
    expected = [moment.replace(tzinfo=UTC) for moment in islice(rrulestr(rule, dtstart=STARTS), 5)]
    assert (fired(rule, STARTS, 5) == expected) is not (rule in IMPLIED | FIRST_WEEK)


def numbers(low: int, high: int, *, signed: bool = False) -> st.SearchStrategy[str]:
    one = st.integers(low, high)
    both = one | one.map(lambda number: -number) if signed else one
    return st.lists(both, min_size=1, max_size=4, unique=True).map(lambda found: ",".join(map(str, found)))


#: dateutil takes seconds for a rule that seldom fires.
RULES_DRAWN: Final = 50
WEEKDAYS: Final = st.lists(st.sampled_from(["MO", "TU", "WE", "TH", "FR", "SA", "SU"]), min_size=1, max_size=4)
BY: Final = st.fixed_dictionaries(
    {},
    optional={
        "BYMONTH": numbers(1, 12),
        "BYMONTHDAY": numbers(1, 31, signed=True),
        "BYDAY": WEEKDAYS.map(",".join),
        "BYHOUR": numbers(0, 23),
        "BYMINUTE": numbers(0, 59),
        "WKST": st.sampled_from(["MO", "SU", "WE"]),
    },
)


@settings(max_examples=RULES_DRAWN)
@given(
    st.sampled_from(FREQUENCIES),
    st.integers(1, 40),
    BY,
    st.datetimes(datetime(1990, 1, 1), datetime(2040, 1, 1)).map(lambda moment: moment.replace(microsecond=0)),  # noqa: DTZ001
)
def test_any_rule_agrees_with_dateutil(freq: str, interval: int, parts: dict[str, str], start: datetime) -> None:
    """Whatever parts are put together, what fires in the first three years is the same, unless it is refused."""
    rule = ";".join([f"FREQ={freq}", f"INTERVAL={interval}", *(f"{name}={value}" for name, value in parts.items())])
    if (freq, "BYMONTHDAY" in parts and "BYDAY" not in parts and "BYMONTH" not in parts) == ("YEARLY", True):
        rule += f";BYMONTH={start.month}"
    horizon = start + 3 * 365 * DAY
    if refusal(rule, start):
        return
    until = f"{rule};UNTIL={horizon:{FORMAT}}"
    theirs = [moment.replace(tzinfo=UTC) for moment in islice(rrulestr(until, dtstart=start), 40)]
    ours = slots_since(Schedule(start, read_repeat(rule, start)), UTC, start.replace(tzinfo=UTC))
    found = [slot.due_at for slot in islice(ours, 40) if slot.due_at <= horizon.replace(tzinfo=UTC)]
    assert found == theirs


# --- cron ----------------------------------------------------------------------------------------


def matches(text: str, moment: str) -> bool:
    """Whether an expression fires at that time of UTC."""
    instant = datetime.fromisoformat(moment).replace(tzinfo=UTC)
    schedule = Schedule(utc(2020, 1, 1), read_repeat(text, None))
    return next(slots_since(schedule, UTC, instant)).due_at == instant


@pytest.mark.parametrize(("version", "text", "hits", "misses", "difference"), cases("ocps.txt", 5))
def test_expressions_of_the_open_cron_pattern_specification(
    version: str, text: str, hits: str, misses: str, difference: str
) -> None:
    """Each matches what the specification says and refuses what it refuses, or differs for the written reason."""
    words = difference.removeprefix("refused: ")
    if words or hits == "no":
        assert words in refusal(text, utc(2020, 1, 1)), version
        assert refusal(text, utc(2020, 1, 1)), version
        return
    assert all(matches(text, moment) for moment in hits.split(",")), version
    assert not any(matches(text, moment) for moment in misses.split(",")), version


def test_a_nickname_is_what_it_stands_for() -> None:
    """`@daily` is kept as the five fields that it means (OCPS 1.1)."""
    assert read_repeat("@daily", None) == "0 0 * * *"


@pytest.mark.parametrize(("begin", "text", "wanted", "difference"), cases("cronsim.txt", 4))
def test_expressions_of_cronsim(begin: str, text: str, wanted: str, difference: str) -> None:
    """Each has the next times that cronsim gives it, also where clocks change, or differs for the written reason."""
    start = datetime.fromisoformat(begin)
    if wanted == "no" or difference.startswith("refused"):
        assert refusal(text, start)
        return
    expected = [datetime.fromisoformat(word) for word in wanted.split(",")]
    found = [moment for moment, _ in groupby(fired(text, start, 2 * len(expected), RIGA))]
    assert (found[: len(expected)] == expected) is not bool(difference)


CRON_FIELDS: Final = (
    st.sampled_from(["*", "0", "*/7", "5/15", "3,17", "10-20", "10-50/20"]),
    st.sampled_from(["*", "*/3", "9", "0,23", "1-5", "8-18/2", "5/6"]),
    st.sampled_from(["*", "1", "31", "29", "*/10", "1-7", "13,27", "L", "20/3"]),
    st.sampled_from(["*", "2", "JAN", "*/5", "FEB-APR", "3,11", "6/3"]),
    st.sampled_from(["*", "0", "7", "MON", "MON-FRI", "*/2", "5L", "2#3", "1,3#1", "5-7"]),
)


@given(st.tuples(*CRON_FIELDS).map(" ".join), st.datetimes(datetime(1999, 1, 1), datetime(2040, 1, 1)))  # noqa: DTZ001
def test_any_expression_agrees_with_cronsim(text: str, start: datetime) -> None:
    """Whatever fields are put together, the next times of UTC are the same, or both never fire."""
    start = start.replace(second=0, microsecond=0)
    try:
        theirs = [moment.replace(tzinfo=UTC) for moment in islice(CronSim(text, start - timedelta(minutes=1)), 8)]
    except CronSimError:
        theirs = []
    assert (fired(text, start, 8) if theirs else []) == theirs
    assert bool(refusal(text, start)) is not bool(theirs)


BAD_VALUES: Final = ("-1", "61", "ABC", "2/", "/2", "2#", "#2", "1##1", "1//2", "\u00b9", "\u0661", "1" * 400)
PATTERNS: Final = (
    "{} * * * *",
    "* {} * * *",
    "* * {} * *",
    "* * * {} *",
    "* * * * {}",
    "* * * * * {}",
    "1-{} * * * *",
    "{}-60 * * * *",
    "* * * {}-DEC *",
    "* * * JAN-{} *",
    "* * * * {}-SUN",
    "* * * * MON-{}",
)


@pytest.mark.parametrize(("pattern", "value"), list(product(PATTERNS, BAD_VALUES)))
def test_bad_values_anywhere(pattern: str, value: str) -> None:
    """The list of bad values of cronsim in every place, and two of our own: each is refused."""
    assert refusal(pattern.format(value), utc(2020, 1, 1))
