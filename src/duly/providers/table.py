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
from duly.providers import smtp_replies, webhook_lookup
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
from duly.providers.webhook_lookup import DELIVERY

__all__ = ["Declared", "declared", "page"]

HEAD: Final = """\
# Providers

This page is written by `make docs` from the declarations in `src/duly/providers/`.

A timeout is not a delivery result: the receiver may have accepted a request whose answer never came back. What
may be done then follows from what the receiver promises, and the promise stands here. The first rung that the
receiver's promise carries is taken; the last one is the account's policy, `on_doubt`: `hold` (the default: an
operator decides), `close` (unconfirmed) or `resend` (a duplicate is accepted).

A look-up's miss proves nothing by itself: the request may be on its way still. Two misses count, one settling time
after the last attempt was given up and one more settling time later. Then nobody has the message, and it is sent
again under the same key, if it still may be.
"""
WEBHOOK_HEAD: Final = """\
## What a webhook receiver's answer proves

One table classifies answers. Answers that speak of the endpoint wait for the operator: they open its circuit, and
do not count against the delivery. Redirects are never followed.
"""
LOOKUP_HEAD: Final = f"""\
## Asking a webhook receiver

A receiver that keeps what it accepted can be asked for it, if it says where: `lookup_url`, which holds `{DELIVERY}`
in the place of the delivery's id, and `settling_seconds`, the longest time from a request to the moment at which a
look-up shows that it was accepted. The question is a GET without a body. It goes to no other place (redirects are not
followed) and to no address inside, unless the provider may send there.

| header | |
| --- | --- |
| `webhook-id` | `lookup_ID_TIMESTAMP`: the question's own, never the message's. Do not drop it as a repeat |
| `webhook-timestamp` | of the question, in seconds since 1970 |
| `webhook-signature` | as of a message (Standard Webhooks), over an empty body, by the same secrets |

The receiver checks who asks as it checks a message, with an empty body, and answers from what it has accepted for
good. It keeps an id for more than a day, and for longer than the age of any backup that may be restored: an id that
it has forgotten looks like one that it never had, and is sent again. So does every id behind a mistyped URL: ask for
one that was sent before you set `lookup_url`.
"""
MAIL_HEAD: Final = """\
## What a mail server's reply proves

Until the final dot nothing was taken: a connection that ends sooner is `not_sent`, and the mail is tried again. Behind
the dot silence is `unknown`, because the server may have the mail; 2xx is `accepted`, and any other reply is definite.
The first row that fits decides. `auth` and `config` open the circuit, as above; so does a 5xx that refuses to relay.
"""
THEN: Final[Mapping[Outcome, str]] = {
    Outcome.ACCEPTED: "sent",
    Outcome.REJECTED: "final",
    Outcome.REFUSED: "tried again, not before `Retry-After`",
    Outcome.NOT_SENT: "tried again",
    Outcome.UNKNOWN: "in doubt: the ladder decides",
}
TO_MEND: Final = "the endpoint's circuit opens; the delivery waits, uncounted"
THEN_FOUND: Final[Mapping[bool, tuple[str, str]]] = {
    True: ("it has the delivery", 'sent; a body like `{"id": "..."}` gives the request id'),
    False: ("it has not", "a miss, which counts after the settling time; the body is not read"),
}
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
    webhooks = f"{WEBHOOK_HEAD}\n{_proofs()}\n{LOOKUP_HEAD}\n{_findings()}"
    return f"{HEAD}\n{_promises()}\n{webhooks}\n{MAIL_HEAD}\n{_replies()}"


def _webhooks() -> Iterator[Declared]:
    keyed, asked = "`deduplicates = true`, `key_window` as it is", "`lookup_url`, `settling_seconds` as it is"
    for deduplicates, lookup_url, setting in (
        (False, "", "as it is"),
        (True, "", keyed),
        (False, DELIVERY, asked),
        (True, DELIVERY, "both"),
    ):
        provider = WebhookProvider("hooks", [SigningKey(b"")], deduplicates=deduplicates, lookup_url=lookup_url)
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
        (promise.lookup_by_id, f"look-up by the request id{wait}, where we hold one"),
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


# --- what a look-up proves -----------------------------------------------------------------------


def _findings() -> str:
    rows = [(str(status), *THEN_FOUND[found]) for status, found in webhook_lookup.BY_STATUS.items()]
    wish = " or ".join(str(status) for status in sorted(webhook_lookup.HEEDS_RETRY_AFTER))
    rows.append((f"{wish} with `Retry-After`", "nothing", "asked again, not before that"))
    rows.append(("any other, or none", "nothing", "asked again later, for a day at least; then `on_doubt`"))
    return _table(("answer", "proves", "then"), rows)


# --- what a mail server's reply proves -----------------------------------------------------------


def _replies() -> str:
    titles = ("asked at", "reply", "enhanced code", "outcome", "class", "source")
    return _table(titles, (_reply(rule) for rule in smtp_replies.RULES))


def _reply(rule: smtp_replies.Rule) -> tuple[str, ...]:
    patterns = ("any" if one == "*" else f"`{one}`" for one in (rule.phases, rule.codes, rule.enhanced))
    return (*patterns, str(rule.verdict.outcome), str(rule.verdict.failure), rule.source)


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    sys.stdout.write(page())
