"""Write docs/reference/quiet-hours.md from the hours of regions in `duly.core.regional_hours`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from duly.core.caps import COUNT_DELIVERIES_MAX, PER_DAYS_MAX
from duly.core.quiet_hours import WINDOWS_MAX
from duly.core.regional_hours import REGIONS, Region
from duly.intake.candidates import CANDIDATES_ZONES_MAX

PAGE: Final = Path(__file__).parents[1] / "docs" / "reference" / "quiet-hours.md"

HEAD: Final = f"""\
# Quiet hours and frequency caps

This page is written by `make docs`; its table comes from `src/duly/core/regional_hours.py`.

```toml
[accounts.harbour-lofts]
zone = "America/New_York"
quiet_hours = ["21:00-08:00", "sun 00:00-24:00"]
caps = {{ marketing = "3/P1D", service = "10/P1D" }}
```

Quiet hours defer a reminder and never drop it. If its deadline comes first, it is `expired`, as always.

## Windows

`21:00-08:00` is every night, `mon-fri 21:00-08:00` the nights that begin on these days, `sat,sun 20:00-10:00` those of
the weekend. A window belongs to the day on which it starts, and one whose end comes before its start ends on the next
day. Times are `HH:MM`; `24:00` may be an end, so `sun 00:00-24:00` is a whole Sunday. There may be {WINDOWS_MAX}
windows. They may overlap, and must leave some time of the week.

Hours are those of the recipient's clock, also on days when it changes. A time that the clocks skip is read with the
offset before the gap: with `02:30-04:30`, quiet begins at 03:30 on the day in spring that has no 02:30. A time that
comes twice is its first pass. A window that would then end before it starts is left out on that day.

## Whose clock

The recipient's zone (`to.zone`). If it is not known and he is reminded by SMS, his number's: its prefix may stand for
up to {CANDIDATES_ZONES_MAX} zones, and then a reminder goes only when it may go in all of them. People move and keep
their numbers, so a zone is better. If there is no number, or it says too little (a toll-free one), the account's
`zone`, which is why an account with quiet hours must have one. UTC is never assumed.

Where several zones leave no free time at all, the search for it ends at midnight UTC, 14 to 15 days on, and is made
again then.

## Which reminders

A reminder may bring windows of its own: `"to": {{"id": "tenant-17", "quiet_hours": ["21:00-08:00"]}}`. They hold
beside the account's, for this reminder, whatever its purpose is but `security`. One that brings none takes its
recipient's: those with which he was first named, or which `duly recipients import` gave him. A reminder that brings
some needs `to.zone` or the account's `zone`, unless it goes by SMS alone; if then its number says too little, nothing
is held back.

Every `purpose` but `security` keeps the account's. With `quiet_purposes = ["marketing"]`, these purposes and no others.

## Frequency caps

`caps = {{ marketing = "3/P1D" }}` lets one recipient get three reminders of this purpose on one channel within any 24
hours; the next waits until the first of them is a day old. A number from 1 to {COUNT_DELIVERIES_MAX:,}, a slash, and a
duration of at most {PER_DAYS_MAX} days. There are none by default.

A delivery counts once, from its first begin, however often it is attempted. One in doubt counts, because it may have
arrived; it may be repeated, whatever has begun since. One of which nothing ever left does not count.

The count and the begin are one transaction, so that any number of workers together never begin more. What has no room
waits (`frequency_cap`) and is sent when it has some, if that is before its deadline; otherwise it expires, and `duly
explain` names the cap. A new cap counts what begins from then on.

## When they are changed

What is changed here binds from the start of the next worker on. What waited for the hours or the cap of before is
looked at again then. Hours and zones that `duly recipients import` changes bind at once, also what waits.

## Hours of regions

`quiet_region = "us"` takes the hours of this table instead of `quiet_hours`. No region is chosen unless you choose it.

**This is not legal advice.** The rules are about marketing, mostly by telephone. Consent, content and channel change
what they mean, and they change themselves: look at the source before you rely on a row. Public holidays are not known
to Duly. Where sources disagree, the row has the hours that all of them allow. Mexico is missing: its operators are said
to have hours, and no source was found that names them. Rows without a date in "checked" were taken over from the source
as somebody else reported it.

"""


def render() -> str:
    """The whole page, as Markdown."""
    head = [
        "| `quiet_region` | | allowed | basis | source | checked | confidence | |",
        "|---|---|---|---|---|---|---|---|",
    ]
    return HEAD + "\n".join([*head, *(_row(name, region) for name, region in REGIONS.items()), ""])


def _row(name: str, region: Region) -> str:
    checked = region.checked_on.isoformat() if region.checked_on else ""
    hours = ", ".join(f"`{text}`" for text in region.allowed)
    cells = [f"`{name}`", region.title, hours, region.basis, region.source, checked, region.confidence, region.note]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
