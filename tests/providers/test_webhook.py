"""The webhook provider: the body to the byte, who signs where, and what each answer proves."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from duly.core import keys
from duly.core.model import Attempt, FailureClass, Frozen, Look, LookKind, Outcome, Result
from duly.errors import ConfigError, Unrenderable
from duly.ports import Answer, HttpRequest, Sent
from duly.providers.standard_webhooks import parse_secret
from duly.providers.webhook import BODY_BYTES_MAX, Endpoint, WebhookProvider
from tests.providers.conformance import CONTENT, DOUBTFUL, NOW, ROW, SECRET

ACME, GLOBEX = "https://hooks.acme.example/in", "https://globex.example/hooks"
KEY = keys.show(ROW.id)


def secret(letter: str) -> str:
    return "whsec_" + letter * 32


def provider(**settings: Any) -> WebhookProvider:
    return WebhookProvider("hooks", [parse_secret(SECRET, "providers.hooks.secret")], **settings)


def freeze(**changes: Any) -> Frozen:
    return provider().freeze(ROW._replace(**changes), CONTENT, NOW)


def request(sender: WebhookProvider, address: str, moment: datetime) -> HttpRequest:
    frozen = sender.freeze(ROW._replace(address=address), CONTENT, NOW)
    return sender.request(frozen, Attempt(KEY, 1, moment))


def classify(status: int, headers: dict[str, str] | None = None, body: bytes = b"") -> Result:
    return provider().classify(Answer(status, headers or {}, body), NOW)


# --- freeze --------------------------------------------------------------------------------------


def test_the_body_to_the_byte() -> None:
    """A receiver gets the documented body, with its fields in the documented order."""
    expected = {
        "type": "reminder.due",
        "timestamp": "2026-12-01T14:00:00Z",
        "data": {
            "delivery": "aaaqeayeaudaocajbifqydiob4",
            "reminder": "inspection-4411",
            "account": "harbour-lofts",
            "occurrence": "once",
            "due_at": "2026-12-01T14:00:00Z",
            "late": False,
            "recipient": {"id": "tenant-17"},
            "template": "inspection",
            "subject": "Inspection on Tuesday",
            "text": "Hello Ana, we visit unit 4B at 10:00.",
            "data": {"unit": "4B"},
        },
    }
    assert freeze().body == json.dumps(expected, separators=(",", ":")).encode()


def test_the_body_does_not_depend_on_when_it_is_made() -> None:
    """The body names the due time in UTC and whole seconds, whenever it is rendered and in whatever zone."""
    elsewhere = ROW.due_at.astimezone(timezone(timedelta(hours=-5)))
    later = provider().freeze(ROW._replace(due_at=elsewhere), CONTENT, NOW + timedelta(days=1))
    assert later == freeze()


def test_a_body_may_be_large_but_not_too_large() -> None:
    """A body of 256 KiB is sent; one byte more is refused, with the size."""
    room = BODY_BYTES_MAX - len(freeze(data={"x": ""}).body)
    assert len(freeze(data={"x": "y" * room}).body) == BODY_BYTES_MAX
    with pytest.raises(Unrenderable, match=f"{BODY_BYTES_MAX + 1} bytes"):
        freeze(data={"x": "y" * (room + 1)})


@pytest.mark.parametrize("data", [{"x": "\ud800"}, {"\udfff": 1}, {"x": 2**64}, {"x": {1, 2}}])
def test_data_that_is_no_json_cannot_be_rendered(data: dict[str, Any]) -> None:
    """Lone surrogates, numbers that JSON readers cannot hold and other objects are refused, not traced back."""
    with pytest.raises(Unrenderable, match="cannot be JSON"):
        freeze(data=data)


def test_data_nested_without_end_cannot_be_rendered() -> None:
    """A tower of objects is refused as well."""
    data: dict[str, Any] = {}
    for _ in range(2000):
        data = {"x": data}
    with pytest.raises(Unrenderable, match="cannot be JSON"):
        freeze(data=data)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "ana@example.com",
        "ftp://example.com/",
        "https://",
        "//example.com/hooks",
        "https://example.com/a b",
        "https://example.com/\r\nX-Injected: yes",
        "https://example.com/\x00",
        "https://bücher.example/",
        "https://example.com/\n",
    ],
)
def test_an_address_that_is_no_plain_url_cannot_be_rendered(address: str) -> None:
    """What cannot stand in a request line is refused, and the reason does not repeat it."""
    with pytest.raises(Unrenderable) as caught:
        freeze(address=address)
    assert str(caught.value) == "the webhook address is not a plain http or https URL; correct the recipient's address"


# --- request -------------------------------------------------------------------------------------


def test_the_headers_of_an_attempt() -> None:
    """The id is the delivery's on every attempt; timestamp and signature are the attempt's."""
    first = request(provider(), ROW.address, NOW)
    second = request(provider(), ROW.address, NOW + timedelta(minutes=5))
    names = ["content-type", "webhook-id", "webhook-timestamp", "webhook-signature", "idempotency-key"]
    assert [name for name, _ in first.headers] == names
    one, two = dict(first.headers), dict(second.headers)
    assert (one["webhook-id"], one["idempotency-key"], one["content-type"]) == (KEY, KEY, "application/json")
    assert (one["webhook-timestamp"], two["webhook-timestamp"]) == ("1796133603", "1796133903")
    assert one["webhook-signature"] != two["webhook-signature"]
    assert (one["webhook-id"], first.body) == (two["webhook-id"], second.body)


def test_the_key_can_be_quoted() -> None:
    """A receiver that follows the IETF draft gets the key as a structured string."""
    headers = dict(request(provider(idempotency_key_quoted=True), ROW.address, NOW).headers)
    assert (headers["idempotency-key"], headers["webhook-id"]) == (f'"{KEY}"', KEY)


def test_a_receivers_library_verifies_what_we_send() -> None:
    """The Standard Webhooks library accepts a request made now."""
    sent = request(provider(), ROW.address, datetime.now(UTC))
    assert Webhook(SECRET).verify(sent.body, dict(sent.headers))["type"] == "reminder.due"


def signed_by(sent: HttpRequest, letters: str) -> str:
    """Which of the secrets signed a request, the provider's own being `-`."""
    candidates = {"-": SECRET} | {letter: secret(letter) for letter in letters}
    return "".join(name for name, text in candidates.items() if _verifies(text, sent))


def _verifies(text: str, sent: HttpRequest) -> bool:
    try:
        Webhook(text).verify(sent.body, dict(sent.headers))
    except WebhookVerificationError:
        return False
    return True


def test_one_customers_secret_signs_nobody_elses_message() -> None:
    """An endpoint with secrets of its own is signed by all of them and no other; the rest by the provider's."""
    own = [parse_secret(secret(letter), "endpoints.acme.secret") for letter in "NO"]
    sender = provider(endpoints={ACME: Endpoint("acme", own), GLOBEX: Endpoint("globex")})
    now = datetime.now(UTC)
    assert signed_by(request(sender, ACME, now), "NO") == "NO"
    assert signed_by(request(sender, GLOBEX, now), "NO") == "-"
    assert signed_by(request(sender, "https://hooks.acme.example/other", now), "NO") == "-"


@pytest.mark.parametrize(
    ("secrets", "endpoints", "section"),
    [([], {}, "providers.hooks.secret"), (["S"], {ACME: Endpoint("acme", [])}, "endpoints.acme.secret")],
)
def test_something_must_sign(secrets: list[str], endpoints: dict[str, Endpoint], section: str) -> None:
    """A provider or an endpoint without a secret is refused, by the name of the missing field."""
    signing = [parse_secret(secret(letter), "any") for letter in secrets]
    with pytest.raises(ConfigError, match=f"^{section}: "):
        WebhookProvider("hooks", signing, endpoints=endpoints)


def test_a_provider_does_not_show_its_secrets() -> None:
    """The `repr` of a provider and of its endpoints is fit for a log."""
    own = parse_secret(secret("N"), "endpoints.acme.secret")
    sender = provider(endpoints={ACME: Endpoint("acme", [own])})
    assert "NNNN" not in repr(sender)
    assert SECRET[6:] not in repr(sender)
    assert "SigningKey(...)" in repr(sender)


# --- what is declared ----------------------------------------------------------------------------


def test_the_providers_terms_are_every_endpoints_default() -> None:
    """An endpoint that says nothing, and a URL that nobody configured, have the provider's terms."""
    sender = provider(rate_per_second=200.0, deduplicates=True, endpoints={ACME: Endpoint("acme")})
    for address in (ACME, GLOBEX):
        promise = sender.capabilities(address)
        assert (promise.keyed_for, promise.key_scope) == (timedelta(days=1), ("endpoint",))
        assert sender.rate(address) == 200.0


def test_an_endpoints_terms_are_its_own() -> None:
    """What an endpoint says holds there and nowhere else."""
    acme = Endpoint("acme", rate_per_second=5.0, deduplicates=True, key_window=timedelta(hours=1))
    sender = provider(rate_per_second=200.0, endpoints={ACME: acme})
    assert (sender.capabilities(ACME).keyed_for, sender.rate(ACME)) == (timedelta(hours=1), 5.0)
    assert (sender.capabilities(GLOBEX).keyed_for, sender.rate(GLOBEX)) == (None, 200.0)


def test_an_endpoint_may_promise_less() -> None:
    """An endpoint that does not drop repeats is not keyed, whatever the provider's default."""
    sender = provider(deduplicates=True, endpoints={ACME: Endpoint("acme", deduplicates=False)})
    assert sender.capabilities(ACME).keyed_for is None
    assert provider().capabilities(ACME).keyed_for is None
    assert provider().rate(ACME) is None


def test_a_request_id_names_no_message() -> None:
    """A receiver gives each request an id, so two of them prove no double acceptance."""
    assert not provider(deduplicates=True).capabilities(ACME).names_message


# --- asking --------------------------------------------------------------------------------------

AT = "https://hooks.acme.example/deliveries/{delivery}"
MINUTE = timedelta(minutes=1)


def question(sender: WebhookProvider, address: str = ACME, moment: datetime = NOW) -> HttpRequest:
    return sender.look(DOUBTFUL._replace(address=address), LookKind.KEY, moment)


def look(status: int, headers: dict[str, str] | None = None, body: bytes = b"") -> Look:
    return provider(lookup_url=AT).seen(DOUBTFUL, LookKind.KEY, Answer(status, headers or {}, body), NOW)


def test_the_question_to_the_letter() -> None:
    """A receiver is asked at its own URL, under an id that is the question's and no message's."""
    asked = question(provider(lookup_url=AT))
    timestamp = str(int(NOW.timestamp()))
    assert (asked.method, asked.url, asked.body) == ("GET", f"https://hooks.acme.example/deliveries/{KEY}", b"")
    headers = dict(asked.headers)
    assert headers.pop("webhook-signature").startswith("v1,")
    assert headers == {
        "accept": "application/json",
        "webhook-id": f"lookup_{KEY}_{timestamp}",
        "webhook-timestamp": timestamp,
    }


def test_a_question_is_signed_as_a_message_is() -> None:
    """The specification's own library verifies it, with an empty body, and refuses it for any other question."""
    asked = question(provider(lookup_url=AT), moment=datetime.now(UTC))
    headers = dict(asked.headers)
    Webhook(SECRET).verify("", headers, json_parse=False)
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify("", {**headers, "webhook-id": headers["webhook-id"].replace("a", "b")}, json_parse=False)


def test_no_two_questions_look_like_repeats() -> None:
    """A receiver that drops what it has seen takes no question for an earlier one, nor for the message."""
    sender = provider(lookup_url=AT)
    ids = {dict(question(sender, moment=NOW + n * MINUTE).headers)["webhook-id"] for n in range(3)}
    ids.add(dict(request(sender, ACME, NOW).headers)["webhook-id"])
    assert len(ids) == 4


def test_only_an_endpoints_own_secret_signs_its_questions() -> None:
    """One customer's secret signs nobody else's question."""
    own = Endpoint("acme", [parse_secret(secret("N"), "s")])
    sender = provider(lookup_url=AT, endpoints={ACME: own})
    for address, signer in ((ACME, secret("N")), (GLOBEX, SECRET)):
        asked = question(sender, address, datetime.now(UTC))
        Webhook(signer).verify("", dict(asked.headers), json_parse=False)
        assert len(dict(asked.headers)["webhook-signature"].split(" ")) == 1


def test_a_question_goes_where_the_bytes_went() -> None:
    """The frozen destination decides who is asked, and with whose secret."""
    sender = provider(endpoints={ACME: Endpoint("acme", lookup_url=AT)})
    doubtful = DOUBTFUL._replace(address=GLOBEX, frozen=freeze(address=ACME))
    assert sender.look(doubtful, LookKind.KEY, NOW).url.startswith("https://hooks.acme.example/")


def test_who_can_be_asked_says_so() -> None:
    """A provider's place to ask is every endpoint's default; an endpoint may have its own, or none."""
    own = Endpoint("acme", lookup_url="https://acme.example/{delivery}", settling=timedelta(seconds=5))
    sender = provider(lookup_url=AT, endpoints={ACME: own, GLOBEX: Endpoint("globex", lookup_url="")})
    promises = [sender.capabilities(url) for url in (ACME, GLOBEX, "https://other.example/")]
    assert [one.lookup_by_key for one in promises] == [True, False, True]
    assert [one.settling for one in promises] == [timedelta(seconds=5), None, timedelta(seconds=60)]
    assert question(sender, ACME).url == f"https://acme.example/{KEY}"
    with pytest.raises(LookupError, match="hooks: this receiver cannot be asked by key"):
        question(sender, GLOBEX)


@pytest.mark.parametrize("url", ["https://acme.example/", "https://acme.example/{delivery}/{delivery}"])
def test_a_question_that_asks_for_nothing_is_refused(url: str) -> None:
    """A place to ask without the place of the id, or with two, is a wrong configuration."""
    with pytest.raises(ConfigError, match=r"^endpoints\.acme\.lookup_url: \{delivery\} must stand in it once"):
        provider(endpoints={ACME: Endpoint("acme", lookup_url=url)})


@pytest.mark.parametrize("status", [100, 201, 202, 204, 301, 302, 400, 401, 403, 405, 410, 429, 500, 502, 503, 504])
def test_only_two_statuses_prove_anything(status: int) -> None:
    """200 is presence and 404 absence, whatever their body; everything else is neither."""
    for body in (b"", b'{"id": "r-1"}', b"not found"):
        assert (look(200, body=body).found, look(404, body=body).found) == (True, False)
        assert look(status, body=body) == Look(None)


@pytest.mark.parametrize("status", [429, 503])
def test_a_receiver_says_when_to_ask_again(status: int) -> None:
    """Retry-After is taken from those who are busy or closed, as seconds or as a date, and from nobody else."""
    assert look(status, {"retry-after": "7"}) == Look(None, retry_after=7.0)
    assert look(status, {"retry-after": "Tue, 01 Dec 2026 14:00:10 GMT"}) == Look(None, retry_after=6.75)
    assert look(status, {"retry-after": "soon"}) == Look(None)
    assert [look(other, {"retry-after": "7"}).retry_after for other in (200, 404, 500, 401)] == [None] * 4


@pytest.mark.parametrize(
    ("body", "request_id"),
    [
        (b'{"id": "r-1", "more": 1}', "r-1"),
        (b'{"id": "' + b"x" * 1000 + b'"}', "x" * 128),
        (b'{"id": "a\\u0000\\r\\nb"}', "a b"),
        (b'{"id": "\\u0000"}', None),
        (b'{"id": ""}', None),
        (b'{"id": 7}', None),
        (b'{"id": ["r-1"]}', None),
        (b'["id"]', None),
        (b"", None),
        (b'{"id": "r-1"', None),
        (b'{"x": "' + b"x" * 70_000 + b'", "id": "r-1"}', None),
    ],
)
def test_the_receivers_own_name_is_bounded_and_clean(body: bytes, request_id: str | None) -> None:
    """An answer that has the delivery names it if it is JSON with a text `id`, and has it in any case."""
    assert look(200, body=body) == Look(True, request_id)
    assert look(404, body=body) == Look(False)


# --- classify ------------------------------------------------------------------------------------

A, J, R, U = Outcome.ACCEPTED, Outcome.REJECTED, Outcome.REFUSED, Outcome.UNKNOWN
F = FailureClass


@pytest.mark.parametrize(
    ("statuses", "outcome", "failure"),
    [
        ([200, 201, 202, 204, 299], A, None),
        ([410], J, F.CONSENT_REVOKED),
        ([401, 403], R, F.AUTH),
        ([300, 301, 302, 304, 307, 308, 402, 404, 405, 407, 421, 426], R, F.CONFIG),
        ([408, 425], R, F.TEMPORARY),
        ([429], R, F.RATE_LIMITED),
        ([400, 406, 409, 411, 413, 415, 418, 422, 431, 451, 499], J, F.CONTENT_REJECTED),
        ([500, 501, 502, 503, 504, 505, 507, 520, 599], U, F.PROVIDER_DOWN),
        ([100, 101, 199, 600, 999, 0, -1], U, F.CONNECTION),
    ],
)
def test_what_a_status_proves(statuses: list[int], outcome: Outcome, failure: FailureClass | None) -> None:
    """Each status proves one outcome, for one reason, and is kept."""
    for status in statuses:
        result = classify(status)
        assert (result.outcome, result.failure, result.http_status) == (outcome, failure, status)


@pytest.mark.parametrize("status", [408, 425, 429, 503])
def test_a_server_says_when_to_come_back(status: int) -> None:
    """Retry-After is taken as seconds or as a date, and makes of a 503 a definite refusal."""
    for wish in ("7", "Tue, 01 Dec 2026 14:00:10 GMT"):
        result = classify(status, {"retry-after": wish})
        assert (result.outcome, result.retry_after) == (R, 7.0 if wish == "7" else 6.75)
    assert classify(503, {"retry-after": "0"}).failure is F.PROVIDER_DOWN


@pytest.mark.parametrize("wish", ["", "soon", "-1", "\x00"])
def test_a_503_with_a_malformed_wish_is_a_bare_503(wish: str) -> None:
    """Only a wish that can be read proves that the server knew what it did."""
    assert (classify(503, {"retry-after": wish}).outcome, classify(503, {"retry-after": wish}).retry_after) == (U, None)


@pytest.mark.parametrize("status", [200, 302, 401, 404, 410, 422, 500, 502, 504])
def test_no_other_answer_is_waited_for(status: int) -> None:
    """Where Retry-After settles nothing it is not recorded as if it did."""
    assert classify(status, {"retry-after": "7"}) == classify(status)


def test_an_accepted_message_stays_accepted_when_the_answer_is_cut() -> None:
    """The status line is the acceptance; a body that ends early takes nothing back."""
    cut = Answer(200, {"x-request-id": "r-1"}, b"par", error="reset", sent=Sent.SOME)
    assert provider().classify(cut, NOW) == Result(A, http_status=200, request_id="r-1")


def test_an_answer_to_nothing_accepts_nothing() -> None:
    """If no byte of the request left, an answer on that connection was meant for somebody else."""
    stray = Answer(200, {}, b"", error="protocol", sent=Sent.NOTHING)
    assert provider().classify(stray, NOW).outcome is Outcome.NOT_SENT


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        ("dns", F.CONNECTION),
        ("connect", F.CONNECTION),
        ("tls", F.CONNECTION),
        ("reset", F.CONNECTION),
        ("protocol", F.CONNECTION),
        ("timeout", F.TIMEOUT),
        ("too_late", F.TOO_LATE),
    ],
)
def test_what_went_wrong_before_the_first_byte(error: str, failure: FailureClass) -> None:
    """Nothing left: not sent, for the reason that the transport gives."""
    result = provider().classify(Answer(error=error, sent=Sent.NOTHING, detail="after 3 ms"), NOW)
    assert result == Result(Outcome.NOT_SENT, failure, detail=f"{error}: after 3 ms")


def test_a_private_address_is_an_end() -> None:
    """An address that we refuse to call stays refused; the detail names the setting, not the address."""
    answer = Answer(error="refused_address", sent=Sent.NOTHING, detail="10.0.0.7")
    result = provider().classify(answer, NOW)
    assert (result.outcome, result.failure) == (J, F.INVALID_DESTINATION)
    assert "allow_private_networks" in (result.detail or "")
    assert "10.0.0.7" not in (result.detail or "")


@pytest.mark.parametrize(("error", "failure"), [("timeout", F.TIMEOUT), ("reset", F.CONNECTION), (None, F.CONNECTION)])
def test_what_went_wrong_after_the_first_byte(error: str | None, failure: FailureClass) -> None:
    """Some of it left and no answer came: unknown."""
    result = provider().classify(Answer(error=error, sent=Sent.SOME), NOW)
    assert result == Result(U, failure, detail=error or "no answer")


@pytest.mark.parametrize(
    ("headers", "request_id"),
    [
        ({"x-request-id": "r-1", "request-id": "r-2"}, "r-1"),
        ({"request-id": "r-2"}, "r-2"),
        ({}, None),
        ({"x-request-id": ""}, None),
        ({"x-request-id": " \t "}, None),
        ({"x-request-id": "a\r\nb\x00\ud800c"}, "a  b  c"),
        ({"x-request-id": "x" * 10_000}, "x" * 128),
    ],
)
def test_request_ids_are_bounded_and_clean(headers: dict[str, str], request_id: str | None) -> None:
    """A request id is what can be recorded of the header, and nothing if that is nothing."""
    for status in (200, 422):
        assert classify(status, headers).request_id == request_id


@pytest.mark.parametrize(
    ("body", "excerpt"),
    [
        (b"unknown unit", "unknown unit"),
        (b"", None),
        (b"\x00\r\n", None),
        (b"line\r\nline\x00\x1b[31m", "line  line  [31m"),
        (b"\xed\xa0\x80 \xff", "\ufffd\ufffd\ufffd \ufffd"),
        ("\u202eevil".encode(), "evil"),
        ("é".encode() * 5000, "é" * 300),
        (b"a" + "\N{ROCKET}".encode() * 5000, "a" + "\N{ROCKET}" * 299),
    ],
)
def test_excerpts_are_bounded_and_clean(body: bytes, excerpt: str | None) -> None:
    """Of a refusal's body the first 300 characters are kept, without what cannot be printed."""
    assert classify(422, body=body).excerpt == excerpt
    assert classify(200, body=body).excerpt is None
