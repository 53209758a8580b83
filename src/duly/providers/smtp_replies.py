"""What an SMTP reply proves: a table of phases, basic codes and enhanced codes, read from top to bottom.

The basic code (RFC 5321, 4.2) says whether the answer is for good; the enhanced code (RFC 3463, and the registry
iana.org/assignments/smtp-enhanced-status-codes) says what it is about; the phase says who was asked. A reply that
speaks of us, of our sender or of our credentials is the operator's to mend. One that speaks of the mailbox or of
the content rejects this message. A 5xx before any message was named says nothing about the message.

Any reply that is not 2xx is definite, also one after the final dot: the server has not taken the message.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from duly.core.model import FailureClass, Outcome

__all__ = ["RULES", "Rule", "Verdict", "enhanced_code", "queue_id", "verdict_of"]

TEXT_CHARACTERS_MAX: Final = 500  # of a reply, that are searched for words
QUEUE_ID_CHARACTERS_MAX: Final = 128


class Verdict(NamedTuple):
    """What a reply proves."""

    outcome: Outcome
    failure: FailureClass | None = None


ACCEPTED: Final = Verdict(Outcome.ACCEPTED)
AUTH: Final = Verdict(Outcome.REFUSED, FailureClass.AUTH)
CONFIG: Final = Verdict(Outcome.REFUSED, FailureClass.CONFIG)
BUSY: Final = Verdict(Outcome.REFUSED, FailureClass.RATE_LIMITED)
NOT_NOW: Final = Verdict(Outcome.REFUSED, FailureClass.TEMPORARY)
DOWN: Final = Verdict(Outcome.REFUSED, FailureClass.PROVIDER_DOWN)
NO_MAILBOX: Final = Verdict(Outcome.REJECTED, FailureClass.INVALID_DESTINATION)
BAD_CONTENT: Final = Verdict(Outcome.REJECTED, FailureClass.CONTENT_REJECTED)


class Rule(NamedTuple):
    """Alternatives are separated by blanks; a star at the end stands for any ending."""

    phases: str
    codes: str
    enhanced: str
    verdict: Verdict
    source: str


RULES: Final = (
    # --- the server leaves, or wants less of us
    Rule("auth", "421", "*", DOWN, "RFC 5321, 3.8"),
    Rule("*", "421", "4.7.*", BUSY, "RFC 3463, 3.8; support.google.com/a/answer/3726730: 421 4.7.x is a rate"),
    Rule("*", "421", "*", DOWN, "RFC 5321, 4.2.2: service not available, closing the channel"),
    # --- who we are
    Rule("auth", "*", "*", AUTH, "RFC 4954, 6: also 454 4.7.0, for the mechanism failed"),
    Rule("*", "525 530 534 535 538", "*", AUTH, "RFC 4954, 6; RFC 5248"),
    Rule("*", "5*", "5.7.8 5.7.9 5.7.11 5.7.12 5.7.13 5.7.14", AUTH, "RFC 4954, 6; RFC 5248"),
    Rule("*", "5*", "5.7.10", CONFIG, "RFC 5248: the session must be encrypted"),
    # --- before any message was named
    Rule("connect helo tls", "*", "*", NOT_NOW, "RFC 5321, 3.1 and 4.1.1.1; RFC 3207, 4"),
    # --- our sender and its domain
    Rule("*", "5*", "5.7.20 5.7.21 5.7.22 5.7.23 5.7.24 5.7.25 5.7.26", CONFIG, "RFC 7372: DKIM, SPF, DMARC"),
    Rule("*", "5*", "5.7.27 5.7.29", CONFIG, "RFC 7505: the sender takes no mail; RFC 8617: ARC"),
    Rule("*", "5*", "5.1.7 5.1.8", CONFIG, "RFC 3463, 3.2: the sender's address"),
    Rule("mail", "5*", "5.3.4 5.2.3", BAD_CONTENT, "RFC 1870, 6.1: the declared size is too big"),
    Rule("mail", "552", "*", BAD_CONTENT, "RFC 1870, 6.1"),
    Rule("mail", "5*", "*", CONFIG, "RFC 5321, 3.3: the sender is not acceptable"),
    # --- the mailbox
    Rule("*", "5*", "5.1.*", NO_MAILBOX, "RFC 3463, 3.2; RFC 7505 for 5.1.10"),
    Rule("*", "5*", "5.2.2", NOT_NOW, "RFC 3463, 3.3: full, the owner may make room"),
    Rule("*", "5*", "5.2.3", BAD_CONTENT, "RFC 3463, 3.3: longer than the owner allows"),
    Rule("*", "5*", "5.2.*", NO_MAILBOX, "RFC 3463, 3.3"),
    Rule("*", "5*", "5.6.7", NO_MAILBOX, "RFC 6531, 3.4: the address is not ASCII"),
    Rule("*", "5*", "5.7.17 5.7.18", NO_MAILBOX, "RFC 7293, 8: it has another owner now"),
    # --- how much, and in what state the system is
    Rule("*", "5*", "5.5.3 5.7.28", BUSY, "RFC 3463, 3.6; IANA registry: mail flood"),
    Rule("*", "5*", "5.3.1", NOT_NOW, "RFC 3463, 3.4: the system is full"),
    Rule("*", "5*", "5.3.2 5.3.5", DOWN, "RFC 3463, 3.4: not accepting, or misconfigured"),
    # --- what it says
    Rule("*", "5*", "5.3.3 5.3.4", BAD_CONTENT, "RFC 3463, 3.4"),
    Rule("*", "5*", "5.6.*", BAD_CONTENT, "RFC 3463, 3.7"),
    Rule("*", "5*", "5.7.*", BAD_CONTENT, "RFC 3463, 3.8: policy"),
    # --- no enhanced code that says more: who was asked decides
    Rule("rcpt", "552", "*", NOT_NOW, "RFC 5321, 4.2.3: exceeded storage allocation"),
    Rule("rcpt", "5*", "*", NO_MAILBOX, "RFC 5321, 3.3"),
    Rule("data dot", "5*", "*", BAD_CONTENT, "RFC 5321, 3.3 and 4.2.5"),
    Rule("*", "5*", "*", NOT_NOW, "no phase is known in which this was said"),
    # --- not now
    Rule("*", "4*", "4.7.* 4.5.3", BUSY, "RFC 3463, 3.6 and 3.8: policy, among it greylisting and rates"),
    Rule("*", "4*", "4.3.2", DOWN, "RFC 3463, 3.4: not accepting messages"),
    Rule("*", "4*", "*", NOT_NOW, "RFC 5321, 4.2.1"),
)

#: At the beginning (RFC 2034, 4), or as some servers write it, after a number sign anywhere.
_ENHANCED: Final = re.compile(r"(?:\A\s*|#)([245]\.\d{1,3}\.\d{1,3})(?!\.?\d)")
#: Postfix, Exim and Sendmail refuse like this whom they do not serve: every recipient would hear it.
_RELAYING: Final = re.compile(
    r"\b(relay(ing)? (access )?(denied|not (permitted|allowed))|unable to relay)\b", re.IGNORECASE
)
#: Postfix; Exim; Sendmail.
_QUEUE_ID: Final = re.compile(
    rf"(?:\bqueued as |\bid=|\A2\.\d\.\d (?=\S+ Message accepted))([A-Za-z0-9._-]{{1,{QUEUE_ID_CHARACTERS_MAX}}})",
    re.IGNORECASE,
)


def verdict_of(phase: str, code: int, text: str) -> Verdict | None:
    """The first rule that fits; None for a code that no rule knows, which is no answer to what was asked."""
    match code // 100:
        case 2:
            return ACCEPTED if phase == "dot" else None
        case 5 if phase == "rcpt" and _RELAYING.search(text, 0, TEXT_CHARACTERS_MAX):
            return CONFIG
        case 4 | 5:
            return _look_up(phase, str(code), enhanced_code(code, text))
        case _:
            return None


def enhanced_code(code: int, text: str) -> str:
    """The reply's enhanced code, or nothing if there is none or it contradicts the basic code (RFC 2034, 4)."""
    match = _ENHANCED.search(text, 0, TEXT_CHARACTERS_MAX)
    return match[1] if match is not None and match[1][0] == str(code)[0] else ""


def queue_id(text: str) -> str | None:
    """The server's name for the message that it accepted, if it tells."""
    match = _QUEUE_ID.search(text, 0, TEXT_CHARACTERS_MAX)
    return match[1].rstrip(".") if match is not None else None


@lru_cache(maxsize=1_024)
def _look_up(phase: str, code: str, enhanced: str) -> Verdict | None:
    for rule in RULES:
        if _fits(rule.phases, phase) and _fits(rule.codes, code) and _fits(rule.enhanced, enhanced):
            return rule.verdict
    return None


def _fits(patterns: str, value: str) -> bool:
    return any(value == one or (one[-1] == "*" and value.startswith(one[:-1])) for one in patterns.split())
