"""The reference page of providers, drawn from what they declare: `python -m duly.providers.table`.

What a receiver promises decides what may be done when nobody knows whether it accepted a message. A
table of promises that is kept by hand drifts from the code, so this one is not: it asks real providers
for their declarations, and takes what answers prove from the table that classifies them. A test fails
when the page is stale.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from duly.core.model import Capabilities, FailureClass, Outcome
from duly.providers.smtp import SmtpProvider
from duly.providers.standard_webhooks import SigningKey
from duly.providers.webhook import (
    BY_HUNDRED,
    BY_STATUS,
    NOTHING_LEFT,
    SOME_LEFT,
    WITH_RETRY_AFTER,
    Verdict,
    WebhookProvider,
)

__all__ = ["Declared", "declared", "page"]

HEAD: Final = """\
# Providers

This page is written by `make docs` from the declarations in `src/duly/providers/`.

A timeout is not a delivery result: the receiver may have accepted a request whose answer never came back. What
may be done then follows from what the receiver promises, and the promise stands here. The first rung that the
receiver's promise carries is taken; the last one is the account's policy, `on_doubt`: `hold` (the default: an
operator decides), `close` (unconfirmed) or `resend` (a duplicate is accepted).
"""
WEBHOOK_HEAD: Final = """\
## What a webhook receiver's answer proves

One table classifies answers. Answers that speak of the endpoint wait for the operator: they open its circuit, and
do not count against the delivery. Redirects are never followed.
"""
THEN: Final[Mapping[Outcome, str]] = {
    Outcome.ACCEPTED: "sent",
    Outcome.REJECTED: "final",
    Outcome.REFUSED: "tried again, not before `Retry-After`",
    Outcome.NOT_SENT: "tried again",
    Outcome.UNKNOWN: "in doubt: the ladder decides",
}
TO_MEND: Final = "the endpoint's circuit opens; the delivery waits, uncounted"
DAY: Final = timedelta(days=1)


class Declared(NamedTuple):
    """A kind of provider, the setting under which it promises this, and the promise."""

    kind: str
    setting: str
    promise: Capabilities


def declared() -> Sequence[Declared]:
    """What every kind of provider declares, in the order in which the page shows it."""
    mail = SmtpProvider("mail", "reminders@example.com")
    return [*_webhooks(), Declared(mail.kind, "as it is", mail.capabilities(""))]


def page() -> str:
    """The whole page, as Markdown."""
    return f"{HEAD}\n{_promises()}\n{WEBHOOK_HEAD}\n{_proofs()}"


def _webhooks() -> Iterator[Declared]:
    key = SigningKey(b"")
    for promises, setting in ((False, "as it is"), (True, "`deduplicates = true`, `key_window` as it is")):
        provider = WebhookProvider("hooks", [key], deduplicates=promises)
        yield Declared(provider.kind, setting, provider.capabilities(""))


# --- what is promised ----------------------------------------------------------------------------


def _promises() -> str:
    titles = ("kind", "setting", "channel", "a repeat under the same key", "after an unknown answer", "accepted twice?")
    return _table(titles, (_promise(one) for one in declared()))


def _promise(one: Declared) -> tuple[str, ...]:
    promise = one.promise
    return (f"`{one.kind}`", one.setting, str(promise.channel), _repeat(promise), _ladder(promise), _twice(promise))


def _repeat(promise: Capabilities) -> str:
    if promise.keyed_for is None:
        return "is a second message"
    scope = f", per {' and '.join(promise.key_scope)}" if promise.key_scope else ""
    return f"is dropped for {_span(promise.keyed_for)}{scope}"


def _ladder(promise: Capabilities) -> str:
    """The rungs in the order in which they are climbed."""
    wait = f" after {_span(promise.settling)}" if promise.settling else ""
    rungs = (
        (promise.keyed_for is not None, "the same bytes under the same key"),
        (promise.lookup_by_key, f"look-up by our key{wait}"),
        (promise.echoes_key, "the first event that echoes our key"),
        (promise.searchable, f"search by recipient and time{wait}"),
        (True, "`on_doubt`"),
    )
    return "; ".join(name for holds, name in rungs if holds)


def _twice(promise: Capabilities) -> str:
    if promise.keyed_for is not None or promise.lookup_by_key:
        return "no, while the receiver keeps its promise"
    return "only by `resend` or an operator's decision"


def _span(time: timedelta) -> str:
    if time % DAY:
        return f"{time.total_seconds():g} seconds"
    return "1 day" if time == DAY else f"{time // DAY} days"


# --- what an answer proves -----------------------------------------------------------------------


def _proofs() -> str:
    verdicts: dict[Verdict, list[str]] = {}
    for answer, verdict in _answers():
        verdicts.setdefault(verdict, []).append(answer)
    outcomes = list(Outcome)
    ordered = sorted(verdicts.items(), key=lambda item: outcomes.index(item[0].outcome))
    return _table(("answer", "outcome", "class", "then"), (_proof(verdict, names) for verdict, names in ordered))


def _answers() -> Iterator[tuple[str, Verdict]]:
    """Every answer that the provider's tables know, and none at all."""
    for status, verdict in BY_STATUS.items():
        yield str(status), verdict
    for hundred, verdict in BY_HUNDRED.items():
        named = any(status // 100 == hundred for status in [*BY_STATUS, *WITH_RETRY_AFTER])
        yield f"any {'other ' if named else ''}{hundred}xx", verdict
    for status, verdict in WITH_RETRY_AFTER.items():
        yield f"{status} with `Retry-After`", verdict
    for error, verdict in SOME_LEFT.items():
        yield f"none ({error})", verdict
    for error, verdict in NOTHING_LEFT.items():
        yield f"nothing sent ({error})", verdict


def _proof(verdict: Verdict, answers: Sequence[str]) -> tuple[str, ...]:
    mend = verdict.outcome is Outcome.REFUSED and verdict.failure in {FailureClass.AUTH, FailureClass.CONFIG}
    then = TO_MEND if mend else THEN[verdict.outcome]
    return ", ".join(answers), str(verdict.outcome), str(verdict.failure or "-"), then


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    sys.stdout.write(page())
