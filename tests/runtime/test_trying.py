"""Trying a reminder out: what is previewed is what would be sent, and a test is marked wherever it goes."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from email.parser import BytesParser
from email.policy import default
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.core import keys
from duly.core.model import Channel
from duly.core.unsubscribe import read_token
from duly.errors import ConfigError, DulyError, InputError, Unrenderable
from duly.intake import Rejection
from duly.runtime.config import Config, parse
from duly.runtime.trying import preview, send_test
from duly.testing.mail_sink import MailSink
from duly.testing.receiver import Receiver
from tests.flows.scene import SECRET
from tests.intake.samples import NAUGHTY

UNSUBSCRIBE: Final = "a secret of thirty-two bytes ...."
#: There is no such database: nothing here opens one.
TOML: Final = f"""
database = "sqlite:///nowhere/duly.db"
namespace = "a-namespace"

[providers.hooks]
kind = "webhook"
secret = "{SECRET}"
timeout_seconds = 1
allow_private_networks = true

[providers.mail]
kind = "smtp"
url = "smtp://127.0.0.1:2525"
from = "Harbour Lofts <reminders@example.com>"
timeout_seconds = 5

[unsubscribe]
url = "https://r.example.com/u"
secret = "{UNSUBSCRIBE}"

[templates.visit]
subject = "Visit on {{{{ data.at | date }}}}"
text = "Hello {{{{ recipient.name }}}}, we come at {{{{ data.at | time }}}}\\u2026"
sms_segments_max = 1
sms_to_gsm = true

[templates.rich]
subject = "s"
text = "t"
html = "<p>{{{{ data.at }}}}</p>"

[accounts.harbour-lofts]
zone = "America/New_York"
"""
NO_PROVIDERS: Final = TOML.partition("[providers.hooks]")[0] + TOML[TOML.index("[templates.visit]") :]


def config(text: str = TOML, **changes: str) -> Config:
    """The configuration, with some of its texts replaced."""
    for old, new in changes.items():
        text = text.replace(old, new)
    return parse(text, Path("duly.toml"), {})


CONFIG: Final = config()


def submitted(**changes: Any) -> dict[str, Any]:
    """A reminder for Ana, as it is submitted."""
    return {
        "idempotency_key": "visit-1",
        "account": "harbour-lofts",
        "to": {
            "id": "tenant-17",
            "name": "Ana",
            "email": "ana@example.com",
            "phone": "+14155550100",
            "webhook": "https://app.example.com/hooks",
            "zone": "America/New_York",
            "locale": "en",
        },
        "channels": ["email", "webhook"],
        "template": "visit",
        "data": {"at": "2026-12-01T14:00:00Z"},
        "notify_at": "2026-12-01T08:00",
        "purpose": "marketing",
        **changes,
    }


def sent(config: Config, to: str, channel: str | None = None, **changes: Any) -> dict[str, Any]:
    """What came of one test."""
    return asyncio.run(send_test(config, submitted(**changes), to, channel))


def by_mail(to: str, sink: MailSink | None = None, **changes: Any) -> tuple[dict[str, Any], list[bytes]]:
    """What came of a test by mail, and what the server has of it."""

    async def run() -> tuple[dict[str, Any], list[bytes]]:
        async with sink or MailSink() as server:
            here = config(**{"127.0.0.1:2525": f"127.0.0.1:{server.port}"})
            answer = await send_test(here, submitted(**changes), to, "email")
            return answer, server.messages.get(to, [])

    return asyncio.run(run())


def by_webhook(run: Callable[[Receiver], Awaitable[Any]]) -> Any:
    """What a test against a receiver gives back."""

    async def with_receiver() -> Any:
        async with Receiver(secrets=[SECRET]) as receiver:
            return await run(receiver)

    return asyncio.run(with_receiver())


# --- preview -------------------------------------------------------------------------------------


def test_a_preview_says_what_would_be_sent() -> None:
    """Subject, text, cost and headers are those of the reminder's first channel, and no database is opened."""
    document = preview(config(), submitted(), None)
    headers = document.pop("headers")
    assert document == {
        "channel": "email",
        "template": "visit",
        "template_version": document["template_version"],
        "subject": "Visit on Dec 1, 2026",
        "text": "Hello Ana, we come at 9:00 AM\u2026",
        "html": None,
        "sms": {"encoding": "gsm-7", "segments": 1, "units": 32},
    }
    identity = keys.show(keys.delivery_id("a-namespace", "harbour-lofts", "visit-1", "once", "email"))
    assert headers["From"] == "Harbour Lofts <reminders@example.com>"
    assert headers["To"] == "Ana <ana@example.com>"
    assert headers["Subject"] == "Visit on Dec 1, 2026"
    assert headers["Date"] == "Tue, 01 Dec 2026 13:00:00 +0000"
    assert headers["Message-ID"] == f"<{identity}@example.com>"
    assert headers["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    contact = keys.contact_id("a-namespace", "harbour-lofts", "email", "ana@example.com")
    shown = re.fullmatch(r"<https://r\.example\.com/u/(.+)>", headers["List-Unsubscribe"])
    assert shown
    assert read_token([UNSUBSCRIBE.encode()], shown[1]) == (contact, "marketing")


def test_headers_are_shown_as_they_are_meant() -> None:
    """Encoded and folded headers are shown decoded, on one line each."""
    to = {**submitted()["to"], "name": "\u65e5\u672c\u592a\u90ce" * 20, "email": "jos\u00e9@b\u00fccher.example"}
    rich = "[templates.rich]\nsubject = 'caf\u00e9 {{ data.word }}'\ntext = 't'\n"
    document = preview(
        config(TOML.partition("[templates.rich]")[0] + rich),
        submitted(to=to, template="rich", data={"word": "word " * 40}),
        "email",
    )
    assert document["headers"]["To"] == "\u65e5\u672c\u592a\u90ce" * 20 + " <jos\u00e9@xn--bcher-kva.example>"
    assert document["headers"]["Subject"] == "caf\u00e9 " + ("word " * 40).strip()


@pytest.mark.parametrize(
    ("channel", "text"),
    [("sms", "Hello Ana, we come at 9:00 AM..."), ("webhook", "Hello Ana, we come at 9:00 AM\u2026")],
)
def test_another_channel_may_be_asked_for(channel: str, text: str) -> None:
    """The text is as that channel has it, and only mail has headers."""
    document = preview(config(), submitted(), channel)
    assert (document["channel"], document["text"], document["headers"]) == (channel, text, None)


def test_without_a_mail_server_there_are_no_headers() -> None:
    """A preview needs no provider, and no address for the channel that it shows."""
    assert preview(config(NO_PROVIDERS), submitted(), None)["headers"] is None
    only_phone = {"name": "Ana", "phone": "+14155550100"}
    document = preview(config(), submitted(to=only_phone, channels=["sms"]), "email")
    assert (document["text"], document["headers"]) == ("Hello Ana, we come at 2:00 PM\u2026", None)


def test_without_a_namespace_there_is_no_link() -> None:
    """Where only the ledger knows the namespace, a link could not be the one that is sent, so there is none."""
    headers = preview(config(**{'namespace = "a-namespace"': ""}), submitted(), None)["headers"]
    assert headers["To"] == "Ana <ana@example.com>"
    assert "List-Unsubscribe" not in headers


@pytest.mark.parametrize(
    ("changes", "channel", "kind", "words"),
    [
        ({"template": "vist"}, None, Rejection, 'template: no template has this name; did you mean "visit"?'),
        ({"data": {}}, None, Rejection, "data: template visit, subject, line 1: data.at is missing"),
        ({"data": {"at": "soon"}}, None, Rejection, "data.at is not a time"),
        ({"to": {"id": "tenant-17"}}, None, InputError, "to: it is an id alone, and only the ledger knows who that is"),
        ({"surplus": 1}, None, Rejection, "surplus: there is no such field"),
        ({}, "fax", InputError, "--channel: it is not one of email, sms, webhook"),
        ({"to": {"name": "x" * 150, "email": "a@b.example"}, "channels": None}, "sms", Unrenderable, "2 SMS segments"),
    ],
)  # fmt: skip
def test_what_cannot_be_sent_cannot_be_previewed(
    changes: dict[str, Any], channel: str | None, kind: type[DulyError], words: str
) -> None:
    """A preview refuses what the import would, and what a worker would, in the same words."""
    with pytest.raises(kind) as caught:
        preview(config(), submitted(**changes), channel)
    assert words in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)


@given(
    name=st.sampled_from(NAUGHTY) | JSON,
    at=st.sampled_from(NAUGHTY) | JSON,
    other=JSON,
    channel=st.sampled_from(Channel),
)
def test_any_submission_is_previewed_or_refused(name: Any, at: Any, other: Any, channel: str) -> None:
    """Whatever stands in a submission gives one document that can be written, or one line."""
    to = {**submitted()["to"], "name": name, "locale": other}
    try:
        document = preview(
            CONFIG, submitted(template="rich", to=to, data={"at": at}, purpose=other or "marketing"), channel
        )
    except DulyError as refused:
        document = str(refused)
        assert len(document.splitlines()) == 1
    assert orjson.dumps(document)


# --- a test by mail ------------------------------------------------------------------------------


@pytest.mark.parametrize("template", ["visit", "rich"])
def test_a_test_by_mail_is_marked(template: str) -> None:
    """The mail arrives at the given address alone, and its subject and every id say that it is a test."""
    answer, (message,) = by_mail("me@example.com", template=template)
    assert (answer["outcome"], answer["provider"], answer["channel"]) == ("accepted", "mail", "email")
    assert re.fullmatch("test-[a-z2-7]{26}", answer["id"])
    assert answer["request_id"]
    read = BytesParser(policy=default).parsebytes(message)
    assert not read.defects
    assert read["Subject"].startswith("[test] ")
    assert read["To"] == "Ana <me@example.com>"
    assert read["Message-ID"] == f"<{answer['id']}@example.com>"
    assert read["X-Duly-Delivery"] == answer["id"]
    assert b"ana@example.com" not in message


def test_a_tests_link_is_the_operators_own() -> None:
    """Whoever presses the button of a test opts out the address that it went to, and not the recipient's."""
    _, (message,) = by_mail("me@example.com")
    shown = BytesParser(policy=default).parsebytes(message)["List-Unsubscribe"]
    contact = keys.contact_id("a-namespace", "harbour-lofts", "email", "me@example.com")
    assert read_token([UNSUBSCRIBE.encode()], shown[1:-1].rpartition("/")[2]) == (contact, "marketing")


def test_every_test_has_an_id_of_its_own() -> None:
    """A second test is another message."""
    assert by_mail("me@example.com")[0]["id"] != by_mail("me@example.com")[0]["id"]


@pytest.mark.parametrize(
    ("to", "outcome", "failure"),
    [("gone@example.com", "rejected", "invalid_destination"), ("busy@example.com", "refused", "provider_down"),
     ("dropped@example.com", "unknown", "connection")],
)  # fmt: skip
def test_what_the_server_says_is_told(to: str, outcome: str, failure: str) -> None:
    """A refusal and a lost answer are told as a worker would class them, and nothing is tried again."""
    sink = MailSink()
    answer, messages = by_mail(to, sink)
    assert (answer["outcome"], answer["class"]) == (outcome, failure)
    assert sink.connections == 1
    assert len(messages) == (outcome == "unknown")


def test_a_server_that_is_not_there_is_told() -> None:
    """Nothing was sent, and the outcome says so."""
    answer = sent(config(**{":2525": ":1"}), "me@example.com")
    assert (answer["outcome"], answer["class"], answer["request_id"]) == ("not_sent", "connection", None)


# --- a test by webhook ---------------------------------------------------------------------------


def test_a_test_by_webhook_is_marked() -> None:
    """The receiver gets a signed request under the test's id, of a type of its own."""

    async def run(receiver: Receiver) -> tuple[dict[str, Any], Any]:
        answer = await send_test(config(), submitted(), receiver.url("ok"), "webhook")
        return answer, receiver.received("ok")

    answer, (request,) = by_webhook(run)
    body = json.loads(request.body)
    assert (answer["outcome"], answer["http_status"]) == ("accepted", 200)
    assert request.headers["webhook-id"] == request.headers["idempotency-key"] == answer["id"]
    assert list(body) == ["type", "timestamp", "data"]
    assert body["type"] == "reminder.test"
    assert body["data"]["delivery"] == answer["id"]
    assert body["data"]["subject"] == "[test] Visit on Dec 1, 2026"
    assert body["data"]["reminder"] == "visit-1"


@pytest.mark.parametrize(
    ("mood", "outcome"), [("denied", "refused"), ("gone", "rejected"), ("silent", "unknown"), ("broken", "unknown")]
)
def test_what_the_receiver_says_is_told(mood: str, outcome: str) -> None:
    """One request leaves, whatever is answered to it, and its outcome is told."""

    async def run(receiver: Receiver) -> tuple[str, int]:
        answer = await send_test(config(), submitted(), receiver.url(mood), "webhook")
        return answer["outcome"], receiver.requests

    assert by_webhook(run) == (outcome, 1)


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("to", "channel", "kind", "words"),
    [
        ("me@example.com", "sms", ConfigError, "no provider sends sms here; add a [providers.NAME] table to duly.toml"),
        ("nobody", "email", InputError, "--to: the address for email is not an e-mail address"),
        ("me@example.com", "webhook", InputError, "--to: the address for webhook is not a URL"),
        ("me@example.com\r\nBcc: eve@example.com", None, InputError, "--to: the address for email is not an e-mail"),
        ("http://a.example/\0", "webhook", InputError, "--to: the address for webhook holds a character"),
        ("x" * 1_000_000, None, InputError, "--to: the address for email is longer than 254 characters"),
        ("me@example.com", "fax", InputError, "--channel: it is not one of email, sms, webhook"),
    ],
)
def test_what_cannot_be_sent_is_refused(to: str, channel: str | None, kind: type[DulyError], words: str) -> None:
    """Before anything is sent, one line says what is wrong, and does not repeat the address."""
    with pytest.raises(kind) as caught:
        sent(config(), to, channel)
    assert str(caught.value).startswith(words)
    assert to not in str(caught.value)


def test_without_a_provider_nothing_is_sent() -> None:
    """The line says what to add."""
    with pytest.raises(ConfigError, match="no provider sends email here"):
        sent(config(NO_PROVIDERS), "me@example.com")


def test_a_row_that_cannot_be_rendered_is_not_sent() -> None:
    """The reason is the one that the import gives."""
    with pytest.raises(Rejection, match=r"data\.at is missing"):
        sent(config(), "me@example.com", data={})


def test_what_comes_before_something_is_previewed_with_it() -> None:
    """The first occurrence is shown, and it knows its anchor."""
    text = config(**{"we come at {{ data.at | time }}": "we come at {{ starts_at | time }}"})
    moment = {"notify_at": None, "starts_at": "2026-12-01T10:30", "before": ["PT24H", "PT1H"]}
    assert "we come at 10:30 AM" in preview(text, submitted(**moment), None)["text"]
    with pytest.raises(InputError, match="starts_at is null"):
        preview(text, submitted(), None)
