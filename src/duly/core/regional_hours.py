"""Hours that rules about marketing leave free, region by region, as data with their sources.

This is not legal advice. The rules are about solicitation, mostly by telephone; consent, content and channel
change what they mean, and they change themselves. Most reminders are no solicitation at all. So nothing
here holds unless an account chooses it, and each region says where its hours were read, when, and how far
that can be trusted. Where sources disagree, the hours are those that all of them allow.

`allowed` are the hours as a source gives them, in the form of windows; `quiet` is the rest of the week, which
a test compares. `checked_on` is the day on which somebody read the source again; where it is None, the hours
were taken over as somebody else reported them. Public holidays are not known here: where a rule names them, the
note says so. A region whose rule is known to exist and not known in hours (Mexico) is left out rather than
guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from duly.core.quiet_hours import Window, read_windows

__all__ = ["REGIONS", "Region"]


class Region(NamedTuple):
    """One region's hours, in the recipient's local time, and why they are believed."""

    title: str
    allowed: tuple[str, ...]
    quiet: tuple[str, ...]
    basis: str  # the rule
    source: str  # where it was read
    confidence: Literal["high", "medium", "low"]
    note: str = ""
    checked_on: date | None = None

    @property
    def windows(self) -> tuple[Window, ...]:
        """`quiet`, read."""
        return read_windows(self.quiet)


_EIGHT_TO_EIGHT: Final = (("08:00-20:00",), ("20:00-08:00",))
_NINE_TO_EIGHT: Final = (("09:00-20:00",), ("20:00-09:00",))
_NINE_TO_NINE: Final = (("09:00-21:00",), ("21:00-09:00",))
_NO_SUNDAYS: Final = (("mon-sat 08:00-20:00",), ("20:00-08:00", "sun 00:00-24:00"))

_STATES: Final = "state law, as tables for callers sum it up"
_TABLE: Final = "https://www.dropcowboy.com/state-compliance (November 2025)"
_TABLES: Final = f"{_TABLE}; https://blog.clickpointsoftware.com/telemarketing-calling-hours-by-state (July 2025)"
_PARTLY: Final = "the table was cut off where it was read"
_HOLIDAYS: Final = "public holidays are not allowed either"
_NOVEMBER: Final = date(2026, 11, 30)

REGIONS: Final[Mapping[str, Region]] = MappingProxyType(
    {
        "cautious": Region(
            "Anywhere",
            *_NINE_TO_EIGHT,
            "no rule: what an operator calls the safe choice in the United States",
            "https://community.sinch.com",
            "medium",
        ),
        "us": Region(
            "United States, federal",
            ("08:00-21:00",),
            ("21:00-08:00",),
            "47 CFR 64.1200(c)(1)",
            "https://www.nwdebtresolution.com/post/telephone-consumer-protection-act-call-time-restrictions",
            "high",
            "states may ask for more",
            _NOVEMBER,
        ),
        "us-fl": Region(
            "Florida",
            *_EIGHT_TO_EIGHT,
            "Fla. Stat. 501.616(6)(a)",
            "https://www.lawserver.com/law/state/florida/statutes/florida_statutes_501-616",
            "high",
            "no more than three calls in 24 hours: set a cap",
            _NOVEMBER,
        ),
        "us-wa": Region(
            "Washington",
            *_EIGHT_TO_EIGHT,
            "RCW 19.158.040",
            "https://app.leg.wa.gov/RCW/default.aspx?cite=19.158.040",
            "high",
            "",
            _NOVEMBER,
        ),
        "us-ok": Region("Oklahoma", *_EIGHT_TO_EIGHT, _STATES, _TABLE, "medium"),
        "us-md": Region("Maryland", *_EIGHT_TO_EIGHT, _STATES, _TABLE, "medium"),
        "us-ma": Region("Massachusetts", *_EIGHT_TO_EIGHT, _STATES, _TABLES, "medium", "", _NOVEMBER),
        "us-al": Region("Alabama", *_NO_SUNDAYS, _STATES, _TABLES, "medium", _HOLIDAYS, _NOVEMBER),
        "us-la": Region("Louisiana", *_NO_SUNDAYS, _STATES, _TABLES, "medium", _HOLIDAYS, _NOVEMBER),
        "us-ms": Region("Mississippi", *_NO_SUNDAYS, _STATES, _TABLE, "medium"),
        "us-ct": Region(
            "Connecticut", *_NINE_TO_EIGHT, _STATES, _TABLES, "medium", "the second table ends at 21:00", _NOVEMBER
        ),
        "us-nv": Region("Nevada", *_NINE_TO_EIGHT, _STATES, _TABLE, "medium"),
        "us-ky": Region("Kentucky", ("10:00-21:00",), ("21:00-10:00",), _STATES, _TABLES, "medium", "", _NOVEMBER),
        "us-mi": Region("Michigan", *_NINE_TO_NINE, _STATES, _TABLE, "low", _PARTLY),
        "us-mn": Region("Minnesota", *_NINE_TO_NINE, _STATES, _TABLE, "low", _PARTLY),
        "us-nm": Region("New Mexico", *_NINE_TO_NINE, _STATES, _TABLE, "low", _PARTLY),
        "us-pa": Region(
            "Pennsylvania",
            ("08:00-21:00",),
            ("21:00-08:00",),
            _STATES,
            _TABLE,
            "low",
            f"{_HOLIDAYS}; {_PARTLY}",
        ),
        "us-ri": Region(
            "Rhode Island",
            ("mon-fri 09:00-18:00",),
            ("18:00-09:00", "sat,sun 00:00-24:00"),
            _STATES,
            _TABLE,
            "low",
            _PARTLY,
        ),
        "us-tx": Region(
            "Texas",
            ("mon-sat 09:00-21:00", "sun 12:00-21:00"),
            ("21:00-09:00", "sun 00:00-12:00"),
            "state law",
            "general knowledge; not found in a text",
            "low",
            "look it up before you rely on it",
        ),
        "ca": Region(
            "Canada",
            ("mon-fri 09:00-21:30", "sat,sun 10:00-18:00"),
            ("mon-fri 00:00-09:00", "mon-fri 21:30-24:00", "sat,sun 00:00-10:00", "sat,sun 18:00-24:00"),
            "CRTC Unsolicited Telecommunications Rules, part III",
            "https://www.northerntel.ca/eng/inside_ntl/donotcalllist/donotcalllist.htm",
            "high",
            "for calls and faxes; provinces may ask for more; the law on electronic messages (CASL) names no hours",
            _NOVEMBER,
        ),
        "fr": Region(
            "France",
            ("mon-sat 08:00-22:00",),
            ("22:00-08:00", "sun 00:00-24:00"),
            "practice of operators, for marketing by SMS",
            "https://developers.brevo.com/reference/sendtransacsms",
            "medium",
            f"{_HOLIDAYS}; other sources end at 20:00 or 20:30, and rules for calls are stricter",
        ),
        "in": Region(
            "India",
            ("10:00-21:00",),
            ("21:00-10:00",),
            "TCCCPR 2018, for promotional messages (DLT)",
            "https://bulksmsindore.in",
            "medium",
            "sources disagree: many begin at 09:00",
        ),
        "ae": Region(
            "United Arab Emirates",
            ("07:00-21:00",),
            ("21:00-07:00",),
            "rules of the operators, for promotional SMS",
            "https://www.twilio.com/en-us/guidelines/ae/sms",
            "high",
        ),
    }
)
