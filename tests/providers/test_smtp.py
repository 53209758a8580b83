"""The SMTP provider: the bytes of a mail, read back by the standard library, and what replies prove."""

from __future__ import annotations

from datetime import UTC, datetime
from email.header import decode_header, make_header
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import compat32, default
from email.utils import getaddresses
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from duly.core import keys
from duly.core.model import Attempt, Channel, Claimed, Content, FailureClass, Outcome, Revisions
from duly.errors import ConfigError, Unrenderable
from duly.ports import Answer, Mail, Provider, Sent
from duly.providers.smtp import EXCERPT_CHARACTERS_MAX, MESSAGE_BYTES_MAX, SmtpProvider
from duly.providers.smtp_message import plain
from duly.providers.smtp_replies import RULES, Rule, enhanced_code, queue_id, verdict_of
from tests.core.values import claimed

NOW = datetime(2026, 12, 1, 14, 0, tzinfo=UTC)
KEY = bytes(range(16))
SHOWN = keys.show(KEY)
HEADERS = ["From", "To", "Subject", "Date", "Message-ID", "X-Duly-Delivery", "Auto-Submitted", "MIME-Version"]

PROVIDER = SmtpProvider("mail", "Harbour Lofts <reminders@example.com>")

anything = st.text(st.characters(exclude_categories=()), max_size=200)
header_like = st.text(st.sampled_from("aB1 \t\r\n=?_.,:;<>()[]@\"\\'-é日🙂\u2028\ud800\x00\x7f"), max_size=120)
texts = st.one_of(
    anything,
    header_like,
    st.text(st.sampled_from("a .=-\r\né"), max_size=400),
    st.builds(lambda word, times: word * times, st.text(min_size=1, max_size=5), st.integers(0, 400)),
)
names = st.one_of(st.none(), anything, header_like, st.builds(lambda c, n: c * n, st.characters(), st.integers(0, 300)))


def a_row(**changes: Any) -> Claimed:
    """A claimed e-mail delivery."""
    ours = {"id": KEY, "channel": Channel.EMAIL, "address": "ana@example.com", "revisions": Revisions(1, 2, 3, 4)}
    return claimed(**(ours | changes))


def freeze(subject: str = "Hello", text: str = "Hi.", html: str | None = None, **changes: Any) -> bytes:
    """The frozen bytes of one mail."""
    return PROVIDER.freeze(a_row(**changes), Content(subject, text, html, "v1"), NOW).body


def read(message: bytes) -> EmailMessage:
    """The mail as the standard library reads it."""
    parsed = BytesParser(policy=default).parsebytes(message)
    assert isinstance(parsed, EmailMessage)
    return parsed


def recipient_of(message: bytes) -> tuple[str, str]:
    """Name and address of the one mailbox in To.

    Read the old way: Python 3.11's new way puts blanks between encoded words, against RFC 2047, 6.2.
    """
    raw = "".join(str(BytesParser(policy=compat32).parsebytes(message)["To"]).splitlines())
    ((phrase, address),) = getaddresses([raw])
    return str(make_header(decode_header(phrase))), address


def content_of(mail: EmailMessage, subtype: str) -> str:
    """A part's text with LF line ends."""
    part = mail.get_body((subtype,))
    assert part is not None
    assert not part.defects
    return str(part.get_content()).replace("\r\n", "\n")


def as_delivered(text: str) -> str:
    """What of a text must arrive: everything but NUL and lone surrogates, with LF line ends."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    ended = lines if lines.endswith("\n") else lines + "\n"
    return ended.encode("utf-8", "replace").decode()


# --- the message ---------------------------------------------------------------------------------


@given(subject=texts, text=texts, html=st.one_of(st.none(), texts), name=names)
@example("Re: =?utf-8?q?forged?=", "x", None, '"a" <b@c>, \\')
@example("a\r\nBcc: eve@example.com", "a\r\n.\r\nb", None, "a\r\nBcc: eve@example.com")
@example("word " * 60, "--=_duly_" + SHOWN + "--\n", "<p>--=_duly_" + SHOWN + "</p>", "x" * 300)
@example("x" * 2000, "x" * 2000, None, "é" * 100)
def test_a_mail_reads_back(subject: str, text: str, html: str | None, name: str | None) -> None:
    """Whatever the texts hold, the standard library reads the same ones back, without a defect."""
    message = freeze(subject, text, html, recipient_name=name)
    mail = read(message)
    assert not mail.defects
    assert mail["Subject"] == plain(subject)
    assert recipient_of(message) == (plain(name or ""), "ana@example.com")
    assert content_of(mail, "plain") == as_delivered(text)
    assert html is None or content_of(mail, "html") == as_delivered(html)


@given(subject=texts, text=texts, html=st.one_of(st.none(), texts), name=names)
def test_a_mail_keeps_to_the_form(subject: str, text: str, html: str | None, name: str | None) -> None:
    """A mail is ASCII in CRLF lines of lawful length, and has the headers that we wrote and no others."""
    message = freeze(subject, text, html, recipient_name=name)
    assert message.isascii()
    assert b"\0" not in message
    assert message.replace(b"\r\n", b"").translate(None, b"\r\n") == message.replace(b"\r\n", b"")
    assert message.endswith(b"\r\n")
    assert max(map(len, message.split(b"\r\n"))) <= 998
    mail = read(message)
    transfer = [] if mail.is_multipart() else ["Content-Transfer-Encoding"]
    assert mail.keys() == [*HEADERS, "Content-Type", *transfer]


@given(subject=header_like, name=header_like)
def test_header_lines_are_folded(subject: str, name: str) -> None:
    """No line of the headers is longer than 78 characters, unless one word is."""
    head = freeze(subject, recipient_name=name).partition(b"\r\n\r\n")[0]
    assert all(len(line) <= 78 or b" " not in line.strip() for line in head.split(b"\r\n"))


@given(subject=texts, text=texts, html=texts, name=names)
def test_the_same_input_gives_the_same_bytes(subject: str, text: str, html: str, name: str | None) -> None:
    """A lost row, rendered again, is the same mail."""
    again = SmtpProvider("other", PROVIDER.sender)
    row, content = a_row(recipient_name=name), Content(subject, text, html, "v1")
    assert PROVIDER.freeze(row, content, NOW) == again.freeze(row, content, NOW)


def test_the_headers_name_the_delivery() -> None:
    """The key stands in the Message-ID and in a header of its own, and the other headers say who, whom and when."""
    mail = read(freeze("Inspection on Tuesday", html="<p>Hi.</p>"))
    assert mail["Message-ID"] == f"<{SHOWN}@example.com>"
    assert mail["X-Duly-Delivery"] == SHOWN
    assert mail["From"] == "Harbour Lofts <reminders@example.com>"
    assert mail["To"] == "Ana <ana@example.com>"
    assert mail["Date"].datetime == NOW
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail.get_content_type() == "multipart/alternative"


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("plain words\n", "7bit"),
        ("caffè, più tardi, per favore: ore dieci\n", "quoted-printable"),
        ("点検のお知らせ\n", "base64"),
        ("x" * 999, "quoted-printable"),
        ("x" * 998, "7bit"),
    ],
)
def test_the_plainest_encoding_is_used(text: str, encoding: str) -> None:
    """Text that can travel as it is does, other text in the shorter encoding."""
    assert read(freeze(text=text))["Content-Transfer-Encoding"] == encoding


def test_frozen_says_what_it_was_made_from() -> None:
    """The destination is the row's address, and template, revisions and hash are on record."""
    frozen = PROVIDER.freeze(a_row(), Content("s", "t", None, "v7"), NOW)
    assert (frozen.destination, frozen.template, frozen.template_version) == ("ana@example.com", "note", "v7")
    assert (frozen.reminder_revision, frozen.recipient_revision, frozen.contact_revision) == (2, 3, 4)
    assert frozen.hash == keys.payload_hash(frozen.body)


def test_a_mail_that_is_too_big_cannot_be_rendered() -> None:
    """Over the limit, the row is refused with the size, before anything is sent."""
    with pytest.raises(Unrenderable, match=f"{MESSAGE_BYTES_MAX} are allowed"):
        freeze(text="line\n" * 220_000)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "ana",
        "@example.com",
        "ana@",
        "a b@example.com",
        "ana@example.com\r\nRCPT TO:<eve@example.com>",
        "ana@exa\0mple.com",
        "<ana@example.com>",
        "ana@example.com>,<eve@example.com",
        '"a"@example.com',
        "ana@[127.0.0.1]",
        "a@b@example.com",
        "ana\ud800@example.com",
        "ana@exa\u2028mple.com",
        "a" * 250 + "@example.com",
        "ana@-bücher-.example",
    ],
)
def test_an_address_that_means_more_cannot_be_rendered(address: str) -> None:
    """An address that could end a header or a command is refused, and not repeated in the reason."""
    with pytest.raises(Unrenderable) as refusal:
        freeze(address=address)
    assert len(address) < 5 or address not in str(refusal.value)


def test_an_international_domain_travels_in_ascii() -> None:
    """A domain needs no SMTPUTF8 (RFC 5890), so envelope and header carry its ASCII form."""
    frozen = PROVIDER.freeze(a_row(address="ana@bücher.example"), Content("s", "t", None, "1"), NOW)
    mail = PROVIDER.request(frozen, Attempt(SHOWN, 1, NOW))
    assert frozen.destination == "ana@bücher.example"
    assert mail.recipient == "ana@xn--bcher-kva.example"
    assert mail.message.isascii()
    assert recipient_of(mail.message) == ("Ana", "ana@xn--bcher-kva.example")


def test_an_international_mailbox_stays_as_it_is() -> None:
    """A local part has no ASCII form: the header carries it in UTF-8 (RFC 6532), the name still encoded."""
    message = freeze(address="josé@example.com", recipient_name="José")
    assert "To: =?utf-8?b?Sm9zw6k=?= <josé@example.com>\r\n".encode() in message


def test_the_request_is_the_frozen_mail_in_its_envelope() -> None:
    """The envelope has the bare addresses and the key, and the bytes are untouched."""
    frozen = PROVIDER.freeze(a_row(), Content("s", "t", None, "1"), NOW)
    expected = Mail("reminders@example.com", "ana@example.com", frozen.body, SHOWN)
    assert PROVIDER.request(frozen, Attempt(SHOWN, 3, NOW)) == expected


def test_smtp_promises_nothing() -> None:
    """No key, no look-up, no echo, no search: doubt goes to the account's policy."""
    promise = PROVIDER.capabilities("ana@example.com")
    assert promise.channel == "email"
    assert promise.keyed_for is None
    assert not any((promise.lookup_by_key, promise.echoes_key, promise.searchable, promise.receipts))


def test_it_is_a_provider() -> None:
    """What the flows read of a provider is there, and the relay has one rate for all addresses."""
    provider: Provider = SmtpProvider("mail", "a@example.com", 12.0, 5.0)
    assert (provider.name, provider.kind, provider.channel) == ("mail", "smtp", "email")
    assert (provider.timeout_seconds, provider.rate("x@example.com")) == (12.0, 5.0)


# --- the sender ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sender", "name", "address"),
    [
        ("reminders@example.com", "", "reminders@example.com"),
        ("<reminders@example.com>", "", "reminders@example.com"),
        ("Harbour Lofts <reminders@example.com>", "Harbour Lofts", "reminders@example.com"),
        ('"Lofts, Harbour" <reminders@example.com>', "Lofts, Harbour", "reminders@example.com"),
        ("Lofts, Harbour <reminders@example.com>", "Lofts, Harbour", "reminders@example.com"),
        ("Häfen <reminders@bücher.example>", "Häfen", "reminders@xn--bcher-kva.example"),
    ],
)
def test_a_sender_is_read(sender: str, name: str, address: str) -> None:
    """A sender is an address, with or without a name."""
    provider = SmtpProvider("mail", sender)
    frozen = provider.freeze(a_row(), Content("s", "t", None, "1"), NOW)
    (mailbox,) = read(frozen.body)["From"].addresses
    assert (mailbox.display_name, mailbox.addr_spec) == (name, address)
    assert provider.request(frozen, Attempt(SHOWN, 1, NOW)).sender == address


@pytest.mark.parametrize(
    "sender",
    [
        "",
        "Harbour Lofts",
        "Harbour Lofts <>",
        "<a@b> <c>",
        "josé@example.com",
        "a@b, c@d",
        "Harbour\r\nBcc: eve@example.com <a@b.example>",
        "Harbour\0 <a@b.example>",
        "Harbour <a@b.example>\r\nBcc: x@y",
    ],
)
def test_a_wrong_sender_is_a_wrong_configuration(sender: str) -> None:
    """What is not one mailbox is refused at start-up, by the name of its key."""
    with pytest.raises(ConfigError, match=r"^providers\.mail\.from: not a sender; write "):
        SmtpProvider("mail", sender)


# --- replies -------------------------------------------------------------------------------------

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


answers = st.builds(
    Answer,
    status=st.one_of(st.none(), st.integers(-1, 999)),
    body=st.one_of(st.binary(max_size=2048), texts.map(lambda text: text.encode("utf-8", "surrogatepass"))),
    error=st.one_of(st.none(), st.sampled_from(["dns", "connect", "tls", "timeout", "reset", "protocol", "x"])),
    sent=st.sampled_from(Sent),
    detail=texts,
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
