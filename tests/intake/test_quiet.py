"""Whose quiet hours a delivery keeps, and in which zones."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from duly.core.model import Channel, HoldPolicy, OnDoubt
from duly.core.quiet_hours import ANY_TIME, Window, read_windows
from duly.intake.quiet import QuietHours
from tests.core.values import claimed

#: 22:30 in New York, 19:30 in Los Angeles.
LATE = datetime(2026, 12, 1, 3, 30, tzinfo=UTC)
NINE_TO_EIGHT = read_windows(["21:00-08:00"])


class Chosen:
    """Policies of accounts of which `harbour` keeps quiet hours for all but security."""

    def on_doubt(self, account: str) -> OnDoubt:  # noqa: ARG002 - the port's signature
        return OnDoubt.HOLD

    def hold(self, account: str) -> HoldPolicy:  # noqa: ARG002 - the port's signature
        return HoldPolicy()

    def quiet(self, account: str, purpose: str) -> tuple[Window, ...]:
        return NINE_TO_EIGHT if account == "harbour" and purpose != "security" else ()

    def cap(self, account: str, purpose: str) -> None:  # noqa: ARG002 - the port's signature
        return None


def until(zone: str | None, account_zone: str | None = None, **row: Any) -> str | None:
    """Until when it is quiet for a row, in UTC."""
    quiet = QuietHours(Chosen(), {"harbour": account_zone})
    found = quiet(claimed(recipient_zone=zone, **row), LATE).until
    return found and f"{found:%d %H:%M}"


def test_the_accounts_hours_hold_in_the_recipients_zone() -> None:
    """At half past ten in the evening it is quiet; at half past seven it is not yet."""
    assert until("America/New_York") == "01 13:00"
    assert until("America/Los_Angeles") is None
    assert until("America/New_York", purpose="security") is None
    assert until("America/New_York", account="other") is None


def test_a_recipients_own_hours_come_on_top() -> None:
    """They hold whatever his account has chosen, for every purpose but security."""
    own = {"recipient_quiet_hours": ("18:00-20:00",), "account": "other"}
    assert until("America/Los_Angeles", **own) == "01 04:00"
    assert until("America/Los_Angeles", **own, purpose="security") is None
    assert until("America/New_York", recipient_quiet_hours=("07:00-09:30",)) == "01 14:30"


def test_an_unknown_zone_is_his_phones_or_his_accounts() -> None:
    """A number of many zones keeps quiet in all of them; without any zone nothing is held back on a guess."""
    sms = {"channel": Channel.SMS, "address": "+12125550100"}
    assert until(None, "America/Los_Angeles", **sms) == "01 13:00"
    assert until(None, "America/Los_Angeles") is None
    assert until(None, "America/New_York") == "01 13:00"
    assert until(None) is None
    assert until("Nowhere/Land", "America/New_York") is None


@pytest.mark.parametrize("purpose", ["service", "security"])
def test_without_windows_no_zone_is_looked_for(purpose: str) -> None:
    """An account that has chosen nothing costs nothing."""
    quiet = QuietHours(Chosen(), {})
    assert quiet(claimed(account="other", purpose=purpose), LATE) is ANY_TIME
