"""What every provider must keep, whatever it declares: checks, and the samples they run on.

A new adapter is put through it by one row in `CASES`. A check says what it needs; it is left out only
where the declaration says that the promise is not made.
"""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from typing import Final, NamedTuple

from duly.core import keys
from duly.core.model import (
    Attempt,
    Capabilities,
    Channel,
    Claimed,
    Content,
    Doubtful,
    FailureClass,
    Frozen,
    Lane,
    Look,
    LookKind,
    Outcome,
    Result,
    Revisions,
)
from duly.core.states import State
from duly.errors import Unrenderable
from duly.ports import Answer, HttpRequest, Mail, Provider, Sent
from duly.providers.smtp import SmtpProvider
from duly.providers.standard_webhooks import parse_secret
from duly.providers.webhook import WebhookProvider

NOW: Final = datetime(2026, 12, 1, 14, 0, 3, 250_000, tzinfo=UTC)
SECRET: Final = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
ERRORS: Final = ("dns", "connect", "tls", "timeout", "reset", "refused_address", "too_late", "protocol", "new", None)
STATUSES: Final = range(100, 600)
HOSTILE: Final = (
    "two\r\nX-Injected: yes",
    "bare\nX-Injected: yes",
    "bare\rX-Injected: yes",
    "end\r\n\r\nX-Injected: yes",
    "nul\x00X-Injected: yes",
    "lone \ud800 surrogate",
    "separators \x85 \u2028 \x0b \x1c X-Injected: yes",
    "é" * 3000,
)

ROW: Final = Claimed(
    id=bytes(range(16)),
    account_id=1,
    account="harbour-lofts",
    fence=3,
    attempts=0,
    spared=0,
    doubt=False,
    closed=False,
    granted=False,
    first_unknown_at=None,
    reminder=b"r" * 16,
    reminder_key="inspection-4411",
    reminder_status="active",
    occurrence="once",
    lane=Lane.NORMAL,
    due_at=datetime(2026, 12, 1, 14, 0, 0, 123_456, tzinfo=UTC),
    deadline_at=NOW + timedelta(hours=8),
    lease_until=NOW + timedelta(minutes=1),
    endpoint=keys.NO_ENDPOINT,
    channel=Channel.WEBHOOK,
    address="https://app.example.com/hooks",
    recipient_ref="tenant-17",
    recipient_name="Ana",
    recipient_zone="America/New_York",
    recipient_locale="en",
    template="inspection",
    data={"unit": "4B"},
    revisions=Revisions(account=1, reminder=2, recipient=3, contact=4),
    account_paused=False,
    suppressed=None,
    block=None,
    frozen=None,
)
#: The same delivery, after an attempt of which nobody knows.
DOUBTFUL: Final = Doubtful(
    id=ROW.id,
    fence=4,
    state=State.UNCERTAIN,
    since=NOW,
    account=ROW.account,
    provider="any",
    address=ROW.address,
    attempts=1,
    spared=0,
    unknown=1,
    last_unknown=1,
    last_unknown_at=NOW,
    request_id="r-1",
    last_outcome=Outcome.UNKNOWN,
    last_failure=FailureClass.TIMEOUT,
    first_unknown_at=NOW,
    misses=0,
    missed_at=None,
    due_at=ROW.due_at,
    deadline_at=ROW.deadline_at,
    closed=False,
    restored=False,
    alarmed=False,
    refused=None,
    frozen=None,
)
CONTENT: Final = Content("Inspection on Tuesday", "Hello Ana, we visit unit 4B at 10:00.", None, "v1")


class Sights(NamedTuple):
    """What one way of asking brings: the answers that prove presence and absence, and one that asks to wait 7 s."""

    found: Answer
    missing: Answer
    later: Answer


@dataclass(frozen=True)
class Case:
    """One provider under test, a row that it can send, and the phases in which an attempt may end.

    `before` are those in which nothing has been taken yet, `after` those in which it may have been. `sights` has
    every way in which it can be asked.
    """

    name: str
    make: Callable[[], Provider]
    row: Claimed
    before: tuple[str, ...] = ("",)
    after: tuple[str, ...] = ("",)
    sights: Mapping[LookKind, Sights] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name

    def promise(self) -> Capabilities:
        """What it declares for its row's destination."""
        return self.make().capabilities(self.row.address)

    def doubtful(self) -> Doubtful:
        """Its row in doubt, with its own frozen bytes."""
        return DOUBTFUL._replace(address=self.row.address, frozen=self.make().freeze(self.row, CONTENT, NOW))

    def phases(self, sent: Sent) -> tuple[str, ...]:
        """Where an attempt may stand with so much of it sent."""
        return self.before if sent is Sent.NOTHING else self.after

    def answers(self, sent: Sent) -> Iterator[Answer]:
        """Answers of every status: whole and cut, with and without a wish, in every phase."""
        wishes: tuple[dict[str, str], ...] = ({}, {"retry-after": "7"})
        for status, phase, error, wish in itertools.product(STATUSES, self.phases(sent), (None, "reset"), wishes):
            yield Answer(status, wish, b"some words", error, sent, phase=phase)

    def failures(self, sent: Sent) -> Iterator[Answer]:
        """No answer, for every error in every phase."""
        for phase, error in itertools.product(self.phases(sent), ERRORS):
            yield Answer(None, {}, b"", error, sent, "details", phase)


def webhook(*, deduplicates: bool = False, lookup_url: str = "") -> WebhookProvider:
    """A webhook provider with the suite's secret."""
    secrets = [parse_secret(SECRET, "providers.hooks.secret")]
    return WebhookProvider("hooks", secrets, deduplicates=deduplicates, lookup_url=lookup_url)


def smtp() -> SmtpProvider:
    """A relay."""
    return SmtpProvider("mail", "Harbour Lofts <reminders@example.com>")


LOOKUP_URL: Final = "https://app.example.com/deliveries/{delivery}?of=hooks"
WEBHOOK_SIGHTS: Final = {
    LookKind.KEY: Sights(
        Answer(200, {}, b'{"id": "r-1"}'), Answer(404, {}, b"nothing here"), Answer(503, {"retry-after": "7"})
    )
}
CASES: Final = (
    Case("webhook", webhook, ROW),
    Case("webhook that deduplicates", lambda: webhook(deduplicates=True), ROW),
    Case("webhook that can be asked", lambda: webhook(lookup_url=LOOKUP_URL), ROW, sights=WEBHOOK_SIGHTS),
    Case(
        "webhook that promises all",
        lambda: webhook(deduplicates=True, lookup_url=LOOKUP_URL),
        ROW,
        sights=WEBHOOK_SIGHTS,
    ),
    Case(
        "smtp",
        smtp,
        ROW._replace(channel=Channel.EMAIL, address="ana@example.com"),
        before=("connect", "helo", "tls", "auth", "mail", "rcpt", "data"),
        after=("dot",),
    ),
)


# --- checks --------------------------------------------------------------------------------------


def check_result(result: Result) -> None:
    """A result is whole: a failure is named exactly where there is one, and its texts can be recorded."""
    assert (result.failure is None) == (result.outcome is Outcome.ACCEPTED)
    assert result.retry_after is None or result.retry_after >= 0
    for text, characters_max in ((result.excerpt, 300), (result.request_id, 256), (result.detail, 400)):
        assert text is None or (0 < len(text) <= characters_max and is_recordable(text))


def check_look(look: Look) -> None:
    """A look is whole: what was not found has no name, and what it says can be recorded."""
    assert look.request_id is None or look.found
    assert look.request_id is None or (0 < len(look.request_id) <= 256 and is_recordable(look.request_id))
    assert look.retry_after is None or (look.found is None and look.retry_after >= 0)


def declared_ways(promise: Capabilities) -> set[LookKind]:
    """The ways in which a provider says that it can be asked."""
    ways = {
        LookKind.REQUEST_ID: promise.lookup_by_id,
        LookKind.KEY: promise.lookup_by_key,
        LookKind.SEARCH: promise.searchable,
    }
    return {way for way, holds in ways.items() if holds}


def proofless(answer: Answer) -> Iterator[Answer]:
    """Answers that prove nothing whatever their body says: none at all, and those of a server in trouble."""
    for error in ERRORS:
        yield Answer(None, {}, b"", error, Sent.SOME, "details")
        yield answer._replace(error=error, sent=Sent.NOTHING)
    for status in (100, 301, 401, 403, 429, 500, 502, 503, 504):
        yield answer._replace(status=status)


def is_recordable(text: str) -> bool:
    """Whether a text has no NUL, no other control character and no lone surrogate."""
    return all(unicodedata.category(one) not in {"Cc", "Cs"} for one in text)


def check_nothing_left(result: Result) -> None:
    """Nothing left, so nothing can have been accepted, and nobody needs to doubt it."""
    check_result(result)
    assert result.outcome in {Outcome.NOT_SENT, Outcome.REFUSED, Outcome.REJECTED}


def check_some_left(result: Result) -> None:
    """Some of it left, so it was sent."""
    check_result(result)
    assert result.outcome is not Outcome.NOT_SENT
    assert result.failure is not FailureClass.TOO_LATE


def freeze(case: Case, row: Claimed, content: Content, now: datetime = NOW) -> Frozen:
    """The provider's own bytes for a row."""
    return case.make().freeze(row, content, now)


def request(case: Case, frozen: Frozen, number: int = 1) -> HttpRequest | Mail:
    """The request of one attempt, some time after the row was frozen."""
    attempt = Attempt(keys.show(case.row.id), number, NOW + timedelta(minutes=number))
    return case.make().request(frozen, attempt)


def hostile_rows(case: Case) -> Iterator[tuple[Claimed, Content]]:
    """The case's row and content with each hostile text in every place that a caller can fill."""
    for text in HOSTILE:
        yield case.row._replace(data={"unit": text, text: 1}), CONTENT
        yield case.row._replace(recipient_name=text, recipient_ref=text, template=text), CONTENT
        yield case.row._replace(reminder_key=text, account=text, occurrence=text), CONTENT
        yield case.row, CONTENT._replace(subject=text, text=text, html=text, version=text)
        yield case.row._replace(address=case.row.address + text), CONTENT


def requests_of_hostile_rows(case: Case) -> Iterator[HttpRequest | Mail]:
    """What is sent for hostile rows. Rows that cannot be rendered are said to be so, and send nothing."""
    for row, content in hostile_rows(case):
        try:
            frozen = freeze(case, row, content)
        except Unrenderable as error:
            check_reason(error)
        else:
            yield request(case, frozen)


def check_reason(error: Unrenderable) -> None:
    """A row that can never be sent says why in one line that can be recorded."""
    assert is_recordable(str(error))


def check_no_injection(sent: HttpRequest | Mail) -> None:
    """No text of a caller has become a header, a line of the envelope or part of a URL's line."""
    if isinstance(sent, HttpRequest):
        check_http_lines(sent)
    else:
        check_mail_lines(sent)


def check_http_lines(sent: HttpRequest) -> None:
    """The URL and the headers are printable ASCII, and none came with a caller's text."""
    lines = [sent.url, *itertools.chain.from_iterable(sent.headers)]
    assert all(line.isascii() and line.isprintable() for line in lines)
    assert " " not in sent.url
    assert not any("injected" in name.lower() for name, _ in sent.headers)


def check_mail_lines(sent: Mail) -> None:
    """The envelope has no line ends, and the message has no header that we did not write."""
    for line in (sent.sender, sent.recipient, sent.envelope_id):
        assert not set(line) & {"\r", "\n", "\x00"}
    head, _, _ = sent.message.partition(b"\r\n\r\n")
    assert b"\x00" not in head
    assert b"\r" not in head.replace(b"\r\n", b"")
    assert b"\n" not in head.replace(b"\r\n", b"")
    assert "X-Injected" not in message_from_bytes(sent.message)


def carries(sent: HttpRequest | Mail, key: str) -> bool:
    """Whether the request bears the key where its receiver looks for it."""
    if isinstance(sent, HttpRequest):
        return any(key in value for _, value in sent.headers)
    return key.encode() in sent.message
