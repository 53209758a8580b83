"""What an SMTP reply, or none, proves: the words of servers in use, and of servers that mean harm."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from duly.core.model import FailureClass, Outcome
from duly.ports import Answer, Sent
from duly.providers.smtp import EXCERPT_CHARACTERS_MAX, SmtpProvider
from duly.providers.smtp_message import plain
from duly.providers.smtp_replies import RULES, Rule, enhanced_code, queue_id, verdict_of

NOW = datetime(2026, 12, 1, 14, 0, tzinfo=UTC)
PROVIDER = SmtpProvider("mail", "Harbour Lofts <reminders@example.com>")

REJECTED, REFUSED = Outcome.REJECTED, Outcome.REFUSED
F = FailureClass

#: phase, code, text -> outcome and class, in the words of servers that are in use
REPLIES = [
    # accepted
    ("dot", 250, "2.0.0 Ok: queued as 4F2B1C0123", Outcome.ACCEPTED, None),
    ("dot", 250, "OK id=1rABcD-0000XX-1x", Outcome.ACCEPTED, None),
    # the mailbox
    ("rcpt", 550, "5.1.1 <ana@example.com>: Recipient address rejected: User unknown", REJECTED, F.INVALID_DESTINATION),
    ("rcpt", 550, "5.1.10 RESOLVER.ADR.RecipientNotFound; not found", REJECTED, F.INVALID_DESTINATION),
    ("rcpt", 551, "5.1.6 mailbox has moved", REJECTED, F.INVALID_DESTINATION),
    ("rcpt", 553, "5.1.3 bad syntax", REJECTED, F.INVALID_DESTINATION),
    ("rcpt", 550, "5.2.1 The email account is disabled", REJECTED, F.INVALID_DESTINATION),
    ("rcpt", 550, "No such user here", REJECTED, F.INVALID_DESTINATION),
    ("rcpt", 550, "Sorry, no mailbox here by that name. (#5.1.1)", REJECTED, F.INVALID_DESTINATION),
    ("rcpt", 550, "5.4.1 Recipient address rejected: Access denied", REJECTED, F.INVALID_DESTINATION),
    ("rcpt", 553, "5.6.7 needs SMTPUTF8", REJECTED, F.INVALID_DESTINATION),
    ("dot", 550, "5.1.1 no such user", REJECTED, F.INVALID_DESTINATION),
    # full
    ("rcpt", 552, "5.2.2 mailbox full", REFUSED, F.TEMPORARY),
    ("dot", 552, "5.2.2 over quota", REFUSED, F.TEMPORARY),
    ("rcpt", 452, "4.2.2 over quota", REFUSED, F.TEMPORARY),
    ("rcpt", 552, "exceeded storage allocation", REFUSED, F.TEMPORARY),
    # content
    ("dot", 554, "5.7.1 Message rejected as spam", REJECTED, F.CONTENT_REJECTED),
    ("dot", 552, "5.3.4 Message size exceeds fixed limit", REJECTED, F.CONTENT_REJECTED),
    ("mail", 552, "5.3.4 Message size exceeds fixed limit", REJECTED, F.CONTENT_REJECTED),
    ("mail", 552, "too big", REJECTED, F.CONTENT_REJECTED),
    ("dot", 554, "5.6.0 malformed", REJECTED, F.CONTENT_REJECTED),
    ("dot", 550, "no", REJECTED, F.CONTENT_REJECTED),
    ("rcpt", 550, "5.7.1 policy violation", REJECTED, F.CONTENT_REJECTED),
    ("data", 554, "no", REJECTED, F.CONTENT_REJECTED),
    # the operator's
    ("auth", 535, "5.7.8 Error: authentication failed", REFUSED, F.AUTH),
    ("auth", 454, "4.7.0 Temporary authentication failure", REFUSED, F.AUTH),
    ("auth", 535, "no", REFUSED, F.AUTH),
    ("mail", 530, "5.7.0 Must issue a STARTTLS command first", REFUSED, F.AUTH),
    ("rcpt", 530, "Authentication required", REFUSED, F.AUTH),
    ("mail", 550, "5.7.1 Sender not owned by user", REFUSED, F.CONFIG),
    ("mail", 553, "sender refused", REFUSED, F.CONFIG),
    ("rcpt", 553, "5.1.8 sender domain not found", REFUSED, F.CONFIG),
    ("dot", 550, "5.7.26 Unauthenticated email is not accepted due to DMARC policy", REFUSED, F.CONFIG),
    ("rcpt", 554, "5.7.1 <ana@example.com>: Relay access denied", REFUSED, F.CONFIG),
    ("rcpt", 550, "relay not permitted", REFUSED, F.CONFIG),
    ("rcpt", 550, "5.7.1 Relaying denied", REFUSED, F.CONFIG),
    ("rcpt", 550, "5.7.54 SMTP; Unable to relay recipient in non-accepted domain", REFUSED, F.CONFIG),
    # not now
    ("connect", 554, "5.7.1 no SMTP service here", REFUSED, F.TEMPORARY),
    ("helo", 550, "go away", REFUSED, F.TEMPORARY),
    ("tls", 454, "4.7.0 TLS not available due to local problem", REFUSED, F.TEMPORARY),
    ("connect", 421, "4.3.2 too many connections", REFUSED, F.PROVIDER_DOWN),
    ("auth", 421, "4.7.0 try again later", REFUSED, F.PROVIDER_DOWN),
    ("data", 421, "4.3.2 closing", REFUSED, F.PROVIDER_DOWN),
    ("dot", 421, "shutting down", REFUSED, F.PROVIDER_DOWN),
    ("mail", 421, "4.7.0 unusual rate of mail", REFUSED, F.RATE_LIMITED),
    ("rcpt", 450, "4.7.1 greylisted", REFUSED, F.RATE_LIMITED),
    ("rcpt", 452, "4.5.3 too many recipients", REFUSED, F.RATE_LIMITED),
    ("rcpt", 451, "4.3.2 busy", REFUSED, F.PROVIDER_DOWN),
    ("rcpt", 450, "try later", REFUSED, F.TEMPORARY),
    ("dot", 451, "4.3.0 local error", REFUSED, F.TEMPORARY),
    # an enhanced code that contradicts the basic one does not count
    ("rcpt", 450, "5.1.1 hm", REFUSED, F.TEMPORARY),
    ("dot", 550, "4.7.0 hm", REJECTED, F.CONTENT_REJECTED),
]


@pytest.mark.parametrize(("phase", "code", "text", "outcome", "failure"), REPLIES)
def test_a_reply_is_classified(
    phase: str, code: int, text: str, outcome: Outcome, failure: FailureClass | None
) -> None:
    """Each server's words have the outcome and class of the table."""
    sent = Sent.SOME if phase == "dot" else Sent.NOTHING
    result = PROVIDER.classify(Answer(status=code, body=text.encode(), sent=sent, phase=phase), NOW)
    assert (result.outcome, result.failure, result.http_status) == (outcome, failure, code)


def _samples(rule: Rule) -> list[tuple[str, int, str]]:
    """What a rule is about: each of its alternatives, with something for the stars."""
    codes = {"*": "499 599", "4*": "499", "5*": "599"}.get(rule.codes, rule.codes)
    subjects = [""] if rule.enhanced == "*" else rule.enhanced.replace("*", "99").split()
    phases = rule.phases.replace("*", "elsewhere")
    return [(phase, int(code), subject) for phase in phases.split() for code in codes.split() for subject in subjects]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.phases}-{rule.codes}-{rule.enhanced}")
def test_no_rule_stands_in_the_shadow_of_another(rule: Rule) -> None:
    """Each rule decides something that an earlier one does not decide otherwise."""
    for phase, code, enhanced in _samples(rule):
        assert verdict_of(phase, code, enhanced) == rule.verdict


def test_every_rule_has_a_source() -> None:
    """A rule of the table says where it comes from."""
    assert all(rule.source for rule in RULES)


@pytest.mark.parametrize(
    ("code", "text", "expected"),
    [
        (550, "5.1.1 no", "5.1.1"),
        (550, "5.1.10 no", "5.1.10"),
        (550, "#5.1.0 Address rejected.", "5.1.0"),
        (550, "no such user (#5.1.1)", "5.1.1"),
        (550, "no", ""),
        (550, "4.1.1 no", ""),
        (550, "5.1.1.1 is an address", ""),
        (550, "since version 5.0.1", ""),
    ],
)
def test_an_enhanced_code_is_found(code: int, text: str, expected: str) -> None:
    """It counts at the beginning or after a number sign, and only if it agrees with the basic code."""
    assert enhanced_code(code, text) == expected


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("2.0.0 Ok: queued as 4F2B1C0123", "4F2B1C0123"),
        ("2.0.0 Ok: queued as 4Xy.", "4Xy"),
        ("OK id=1rABcD-0000XX-1x", "1rABcD-0000XX-1x"),
        ("2.0.0 u1E0aB12 Message accepted for delivery", "u1E0aB12"),
        ("2.6.0 <x@y> [InternalId=123] Queued mail for delivery", None),
        ("Ok", None),
    ],
)
def test_the_servers_name_for_the_message_is_kept(text: str, name: str | None) -> None:
    """Postfix, Exim and Sendmail tell their queue's name, which is the request id."""
    assert queue_id(text) == name
    assert PROVIDER.classify(Answer(status=250, body=text.encode(), phase="dot"), NOW).request_id == name


# --- no reply ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "phase", "outcome", "failure"),
    [
        ("dns", "connect", Outcome.NOT_SENT, F.CONNECTION),
        ("connect", "connect", Outcome.NOT_SENT, F.CONNECTION),
        ("tls", "tls", Outcome.NOT_SENT, F.CONNECTION),
        ("reset", "mail", Outcome.NOT_SENT, F.CONNECTION),
        ("timeout", "rcpt", Outcome.NOT_SENT, F.TIMEOUT),
        ("too_late", "mail", Outcome.NOT_SENT, F.TOO_LATE),
        ("protocol", "helo", Outcome.NOT_SENT, F.PROVIDER_DOWN),
        ("protocol", "auth", Outcome.REFUSED, F.AUTH),
    ],
)
def test_nothing_was_taken_before_the_dot(error: str, phase: str, outcome: Outcome, failure: FailureClass) -> None:
    """Without the final dot an attempt was not sent, whatever went wrong."""
    result = PROVIDER.classify(Answer(error=error, sent=Sent.NOTHING, phase=phase), NOW)
    assert (result.outcome, result.failure, result.http_status) == (outcome, failure, None)


def test_a_relay_without_smtputf8_rejects_the_address() -> None:
    """An address that the relay cannot write is wrong for good, at this relay."""
    answer = Answer(error="protocol", sent=Sent.NOTHING, phase="mail", detail="smtputf8 is not offered")
    result = PROVIDER.classify(answer, NOW)
    assert (result.outcome, result.failure) == (Outcome.REJECTED, F.INVALID_DESTINATION)


@pytest.mark.parametrize(
    ("error", "failure"), [("timeout", F.TIMEOUT), ("reset", F.CONNECTION), ("protocol", F.CONNECTION)]
)
def test_after_the_dot_nobody_knows(error: str, failure: FailureClass) -> None:
    """A final dot without a reply is unknown: a timeout is not a delivery result."""
    result = PROVIDER.classify(Answer(error=error, sent=Sent.SOME, phase="dot"), NOW)
    assert (result.outcome, result.failure) == (Outcome.UNKNOWN, failure)


def test_an_answer_to_something_else_is_no_acceptance() -> None:
    """Only the reply to the dot accepts."""
    result = PROVIDER.classify(Answer(status=250, body=b"Ok", sent=Sent.NOTHING, phase="rcpt"), NOW)
    assert result.outcome is Outcome.NOT_SENT


any_text = st.text(st.characters(exclude_categories=()))
answers = st.builds(
    Answer,
    status=st.one_of(st.none(), st.integers(-1, 999)),
    body=st.one_of(
        st.binary(max_size=2048),
        any_text.map(lambda text: text.encode("utf-8", "surrogatepass")),
    ),
    error=st.one_of(st.none(), st.sampled_from(["dns", "connect", "tls", "timeout", "reset", "protocol", "x"])),
    sent=st.sampled_from(Sent),
    detail=any_text,
    phase=st.sampled_from(["", "connect", "helo", "tls", "auth", "mail", "rcpt", "data", "dot", "x"]),
)


@given(answers)
@example(Answer(status=550, body=b"a" * 2047 + b"@", phase="rcpt"))
def test_any_answer_is_classified_truthfully(answer: Answer) -> None:
    """Hostile answers never raise, only 2xx to the dot accepts, and silence is unknown where bytes may have left."""
    result = PROVIDER.classify(answer, NOW)
    replied = answer.status is not None and answer.status // 100 in (4, 5)
    accepted = answer.status is not None and answer.status // 100 == 2 and answer.phase == "dot"
    assert (result.outcome is Outcome.ACCEPTED) == accepted
    if replied:
        assert result.outcome in (Outcome.REFUSED, Outcome.REJECTED)
    elif not accepted:
        assert (result.outcome is Outcome.UNKNOWN) == (answer.sent is Sent.SOME)


@given(answers)
def test_what_is_recorded_can_be_recorded(answer: Answer) -> None:
    """Excerpt and detail are short, and hold no control character and no lone surrogate."""
    result = PROVIDER.classify(answer, NOW)
    for words in (result.excerpt, result.detail, result.request_id):
        assert words is None or (0 < len(words) <= EXCERPT_CHARACTERS_MAX and words == plain(words))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5.1.1 <ana@example.com>: unknown", "5.1.1 <address>: unknown"),
        ("ana+x@example.com is not known, nor o'brien@example.com", "<address> is not known, nor <address>"),
        ("5.1.1 first\n5.1.1 second\x00", "5.1.1 first 5.1.1 second"),
        ("x" * 290 + " ana@example.com", "x" * 290 + " <address>"[:10]),
    ],
)
def test_addresses_are_masked(text: str, expected: str) -> None:
    """The provider's words are kept, on one line, without the addresses in them."""
    result = PROVIDER.classify(Answer(status=550, body=text.encode(), sent=Sent.NOTHING, phase="rcpt"), NOW)
    assert result.excerpt == expected
