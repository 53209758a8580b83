"""The reference page of providers says what the code says."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from duly.core.model import Capabilities, Channel
from duly.providers import smtp_replies, table, webhook, webhook_lookup
from duly.runtime.config.model import KINDS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "providers.md"


def test_the_page_is_fresh() -> None:
    """The page in the repository is what `python -m duly.providers.table` prints now."""
    printed = subprocess.run([sys.executable, "-m", "duly.providers.table"], capture_output=True, text=True, check=True)
    assert PAGE.read_text(encoding="utf-8") == printed.stdout


def test_every_kind_is_declared() -> None:
    """Every kind of provider that can be configured has its row."""
    assert {one.kind for one in table.declared()} == set(KINDS)


def rows_about(text: str, status: int) -> list[str]:
    """The rows of a table whose first cell names the status."""
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    return [row for row in rows if str(status) in row.split("|")[1].replace(",", " ").split()]


def test_every_verdict_has_its_row() -> None:
    """Each answer that the webhook's tables name stands in one row of the page, with its class."""
    for status, verdict in webhook.BY_STATUS.items():
        (row,) = rows_about(table._proofs(), status)
        assert f"| {verdict.outcome} | {verdict.failure} |" in row


def test_every_finding_has_its_row() -> None:
    """Each answer to a look-up that proves something, or asks to wait, stands in one row of the page."""
    proofs = {200: "it has the delivery", 404: "it has not", 429: "nothing", 503: "nothing"}
    assert set(proofs) == webhook_lookup.BY_STATUS.keys() | webhook_lookup.HEEDS_RETRY_AFTER
    for status, proof in proofs.items():
        (row,) = rows_about(table._findings(), status)
        assert f"| {proof} |" in row
        assert row in table.page()


def test_every_rule_about_mail_has_its_row() -> None:
    """Each rule by which a mail server's reply is read stands in one row, in its order, with its verdict and source."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table._replies().splitlines()[2:]]
    assert len(rows) == len(smtp_replies.RULES)
    for row, rule in zip(rows, smtp_replies.RULES, strict=True):
        assert [cell.strip("`").replace("any", "*") for cell in row[:3]] == [rule.phases, rule.codes, rule.enhanced]
        assert row[3:] == [*map(str, rule.verdict), rule.source]
    assert table._replies() in table.page()


@pytest.mark.parametrize(
    ("promise", "repeat", "ladder", "twice"),
    [
        (
            Capabilities(Channel.SMS),
            "is a second message",
            "`on_doubt`",
            "only by `resend` or an operator's decision",
        ),
        (
            Capabilities(Channel.EMAIL, keyed_for=timedelta(days=7), key_scope=("account", "token")),
            "is dropped for 7 days, per account and token",
            "the same bytes under the same key; `on_doubt`",
            "no, while the receiver keeps its promise",
        ),
        (
            Capabilities(Channel.EMAIL, lookup_by_key=True, settling=timedelta(minutes=10)),
            "is a second message",
            "look-up by our key after 600 seconds; `on_doubt`",
            "no, while the receiver keeps its promise",
        ),
        (
            Capabilities(Channel.EMAIL, lookup_by_id=True, lookup_by_key=True, settling=timedelta(days=1)),
            "is a second message",
            "look-up by the request id after 1 day, where we hold one; look-up by our key after 1 day; `on_doubt`",
            "no, while the receiver keeps its promise",
        ),
        (
            Capabilities(Channel.SMS, echoes_key=True, searchable=True, settling=timedelta(minutes=2)),
            "is a second message",
            "the first event that echoes our key; search by recipient and time after 120 seconds; `on_doubt`",
            "only by `resend` or an operator's decision",
        ),
    ],
)
def test_a_promise_in_words(promise: Capabilities, repeat: str, ladder: str, twice: str) -> None:
    """Each promise is told by its rungs, in the order in which they are climbed, and never by more."""
    assert table._promise(table.Declared("any", "as it is", promise))[-3:] == (repeat, ladder, twice)
