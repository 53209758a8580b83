"""Every provider, with every declaration, keeps what `conformance` asks."""

from __future__ import annotations

import asyncio
import http.client
import itertools
from datetime import timedelta
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.core import keys
from duly.core.model import Attempt, LookKind, Outcome
from duly.ports import Answer, HttpRequest, Mail, Sent
from duly.testing.receiver import Receiver
from tests.providers.conformance import (
    CASES,
    CONTENT,
    DOUBTFUL,
    NOW,
    ROW,
    SECRET,
    Case,
    carries,
    check_look,
    check_no_injection,
    check_nothing_left,
    check_result,
    check_some_left,
    declared_ways,
    freeze,
    proofless,
    request,
    requests_of_hostile_rows,
    webhook,
)

on_every_case = pytest.mark.parametrize("case", CASES, ids=str)


@on_every_case
def test_every_status_has_one_outcome(case: Case) -> None:
    """Every status classifies to one whole outcome, the same each time, and is never taken for silence."""
    provider = case.make()
    for answer in case.answers(Sent.SOME):
        result = provider.classify(answer, NOW)
        check_some_left(result)
        assert result.http_status == answer.status
        assert result == provider.classify(answer, NOW)


@on_every_case
def test_nothing_left_is_never_in_doubt(case: Case) -> None:
    """Whatever went wrong before the first byte, and whatever came back, the outcome is a definite no."""
    provider = case.make()
    for answer in itertools.chain(case.failures(Sent.NOTHING), case.answers(Sent.NOTHING)):
        check_nothing_left(provider.classify(answer, NOW))


@on_every_case
def test_silence_is_always_in_doubt(case: Case) -> None:
    """Whatever went wrong after the first byte and before an answer, the outcome is unknown."""
    provider = case.make()
    for answer in case.failures(Sent.SOME):
        result = provider.classify(answer, NOW)
        check_some_left(result)
        assert result.outcome is Outcome.UNKNOWN


@on_every_case
@given(
    status=st.none() | st.integers(),
    headers=st.dictionaries(st.sampled_from(["retry-after", "x-request-id", "request-id", "date"]), st.text()),
    body=st.binary(),
    error=st.none() | st.text(),
    sent=st.sampled_from(Sent),
    detail=st.text(),
    phase=st.text(),
)
def test_no_answer_raises(  # noqa: PLR0913, PLR0917  the fields of an answer
    case: Case,
    status: int | None,
    headers: dict[str, str],
    body: bytes,
    error: str | None,
    sent: Sent,
    detail: str,
    phase: str,
) -> None:
    """Rubbish in every part of an answer still gives one whole outcome."""
    check_result(case.make().classify(Answer(status, headers, body, error, sent, detail, phase), NOW))


@on_every_case
def test_the_same_row_freezes_to_the_same_bytes(case: Case) -> None:
    """Two providers with the same configuration freeze a row to the same bytes, under the same hash."""
    first, second = freeze(case, case.row, CONTENT), freeze(case, case.row, CONTENT)
    assert first == second
    assert first.hash == keys.payload_hash(first.body)


@on_every_case
def test_frozen_bytes_say_what_they_were_made_from(case: Case) -> None:
    """Frozen bytes name their destination, template and revisions, so that a change is seen."""
    frozen = freeze(case, case.row, CONTENT)
    seen = (frozen.reminder_revision, frozen.recipient_revision, frozen.contact_revision)
    assert (frozen.destination, frozen.number) == (case.row.address, 0)
    assert (frozen.template, frozen.template_version) == (case.row.template, CONTENT.version)
    assert seen == (case.row.revisions.reminder, case.row.revisions.recipient, case.row.revisions.contact)


@on_every_case
def test_a_request_never_changes_the_frozen_bytes(case: Case) -> None:
    """Every attempt carries the frozen body to the frozen destination."""
    frozen = freeze(case, case.row, CONTENT)
    for number in (1, 2, 30):
        sent = request(case, frozen, number)
        body, destination = (sent.body, sent.url) if isinstance(sent, HttpRequest) else (sent.message, sent.recipient)
        assert (body, destination) == (frozen.body, frozen.destination)


@on_every_case
def test_another_row_has_other_bytes(case: Case) -> None:
    """Bytes that may be told apart by their hash differ where the message does."""
    other = freeze(case, case.row, CONTENT._replace(text="Hello Ana, we visit unit 4C at 10:00."))
    assert other.hash != freeze(case, case.row, CONTENT).hash


@on_every_case
def test_a_keyed_request_carries_the_key(case: Case) -> None:
    """Where repeats under the same key are dropped, or the key is echoed or looked up, every attempt bears it."""
    promise = case.promise()
    if not (promise.keyed_for or promise.lookup_by_key or promise.echoes_key):
        pytest.skip("declares no use of a key")
    frozen = freeze(case, case.row, CONTENT)
    assert all(carries(request(case, frozen, number), keys.show(case.row.id)) for number in (1, 2))


@on_every_case
def test_hostile_texts_reach_no_header(case: Case) -> None:
    """Line ends, NUL and lone surrogates in names, subjects, data and addresses never get into a header."""
    sent = list(requests_of_hostile_rows(case))
    assert sent
    for one in sent:
        check_no_injection(one)


def ways(case: Case) -> set[LookKind]:
    """The ways in which this provider can be asked; where there are none, the test has no subject."""
    declared = declared_ways(case.promise())
    if not declared:
        pytest.skip("declares no look-up")
    return declared


@on_every_case
def test_every_declared_way_of_asking_has_its_question(case: Case) -> None:
    """A question is a GET without a body and bears our key; the same row and time give the same one."""
    row = case.doubtful()
    for way in ways(case):
        asked = case.make().look(row, way, NOW)
        assert (asked.method, asked.body) == ("GET", b"")
        assert keys.show(row.id) in asked.url or carries(asked, keys.show(row.id))
        assert asked == case.make().look(row, way, NOW)
        assert asked != case.make().look(row, way, NOW + timedelta(seconds=1))
        check_no_injection(asked)


@on_every_case
def test_a_way_that_is_not_declared_cannot_be_asked(case: Case) -> None:
    """Asking where nothing was promised is a bug of the caller, and said to be one."""
    for way in set(LookKind) - declared_ways(case.promise()):
        with pytest.raises(LookupError):
            case.make().look(case.doubtful(), way, NOW)


@on_every_case
def test_every_declared_way_has_its_sights(case: Case) -> None:
    """The suite knows what presence and absence look like for each way declared, and for no other."""
    assert set(case.sights) == declared_ways(case.promise())


@on_every_case
def test_a_look_tells_presence_from_absence(case: Case) -> None:
    """Found, missing and asked to wait are told apart, and nothing but the answer decides."""
    for way in ways(case):
        provider, row, sights = case.make(), case.doubtful(), case.sights[way]
        looks = [provider.seen(row, way, answer, NOW) for answer in sights]
        assert [(look.found, look.retry_after) for look in looks] == [(True, None), (False, None), (None, 7.0)]
        for look in looks:
            check_look(look)


@on_every_case
def test_trouble_proves_nothing(case: Case) -> None:
    """No answer, an answer to nothing sent, and a server in trouble are neither presence nor absence."""
    for way in ways(case):
        provider, row = case.make(), case.doubtful()
        for answer in itertools.chain(*map(proofless, case.sights[way])):
            assert provider.seen(row, way, answer, NOW).found is None


BODIES = st.binary() | st.sampled_from(
    [
        b"[" * 200_000,
        b'{"id": ' * 50_000,
        b'{"id": "' + b"x" * 100_000 + b'"}',
        b'{"id": "\\u0000\\r\\n"}',
        b'{"id": "\\ud800"}',
        b'{"id": null}',
        b'{"id": {"id": "r"}}',
        b'{"id": 7}',
        b'["id"]',
        b'"id"',
        b"\xff\xfe",
    ]
)


@on_every_case
@given(
    way=st.sampled_from(LookKind),
    status=st.none() | st.integers() | st.sampled_from([200, 404, 429, 503]),
    headers=st.dictionaries(st.sampled_from(["retry-after", "x-request-id", "content-type"]), st.text()),
    body=BODIES,
    error=st.none() | st.text(),
    sent=st.sampled_from(Sent),
)
def test_no_sight_raises(
    case: Case,
    way: LookKind,
    status: int | None,
    headers: dict[str, str],
    body: bytes,
    error: str | None,
    sent: Sent,
) -> None:
    """Rubbish in every part of an answer still gives one whole look, also for a way that nobody declared."""
    check_look(case.make().seen(case.doubtful(), way, Answer(status, headers, body, error, sent), NOW))


@on_every_case
def test_promises_are_whole(case: Case) -> None:
    """A window is a time; a look-up and a search say how long to wait before a miss counts."""
    promise = case.promise()
    assert promise.channel == case.make().channel == case.row.channel
    assert promise.keyed_for is None or promise.keyed_for > timedelta(0)
    assert not (promise.lookup_by_key or promise.searchable) or promise.settling is not None


@on_every_case
def test_a_keyed_promise_holds_at_a_receiver(case: Case) -> None:
    """A message whose first answer was lost is sent again under its key, and accepted once."""
    if case.promise().keyed_for is None:
        pytest.skip("declares no key")
    asyncio.run(_check_accepted_once(case))


async def _check_accepted_once(case: Case) -> None:
    async with Receiver(secrets=[SECRET]) as receiver:
        provider = case.make()
        row = case.row._replace(address=receiver.url("lost", "7"))
        frozen = provider.freeze(row, CONTENT, NOW)
        sent = [request(case, frozen, number) for number in (1, 2)]
        answers = [await asyncio.to_thread(_send, one, wait) for one, wait in zip(sent, (0.3, 10), strict=True)]
        results = [provider.classify(answer, NOW) for answer in answers]
        assert [result.outcome for result in results] == [Outcome.UNKNOWN, Outcome.ACCEPTED]
        assert receiver.accepted == [keys.show(row.id)]
        assert (receiver.duplicates_dropped, receiver.bad_signatures) == (1, 0)
        assert len({one.body for one in receiver.received("lost", "7")}) == 1


@pytest.mark.parametrize("mood", ["lost", "dropped", "broken", "silent", "reset", "down"])
def test_a_look_up_tells_what_an_unknown_answer_did_not(mood: str) -> None:
    """After an unknown answer a signed question finds exactly what the receiver has accepted."""
    asyncio.run(_check_look_up(mood))


async def _check_look_up(mood: str) -> None:
    async with Receiver(secrets=[SECRET], lookup=True) as receiver:
        provider = webhook(lookup_url=receiver.lookup_url())
        row = ROW._replace(address=receiver.url(mood))
        frozen = provider.freeze(row, CONTENT, NOW)
        answer = await asyncio.to_thread(_send, provider.request(frozen, Attempt(keys.show(row.id), 1, NOW)), 0.3)
        assert provider.classify(answer, NOW).outcome is Outcome.UNKNOWN
        doubtful = DOUBTFUL._replace(address=row.address)
        asked = await asyncio.to_thread(_send, provider.look(doubtful, LookKind.KEY, NOW), 10)
        look = provider.seen(doubtful, LookKind.KEY, asked, NOW)
        assert look.found is (mood in {"lost", "dropped", "broken"})
        assert look.request_id == ("accepted-1" if look.found else None)
        assert (receiver.questions, receiver.bad_signatures) == (1, 0)
        assert receiver.asked == [keys.show(row.id)]


def _send(sent: HttpRequest | Mail, patience: float) -> Answer:
    """A sender small enough to be believed: one request, one answer or none."""
    assert isinstance(sent, HttpRequest)
    parts = urlsplit(sent.url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=patience)
    try:
        connection.request(sent.method, parts.path, sent.body or None, dict(sent.headers))
        came = connection.getresponse()
        return Answer(came.status, {name.lower(): value for name, value in came.getheaders()}, came.read())
    except TimeoutError:
        return Answer(error="timeout", sent=Sent.SOME)
    except ConnectionError:
        return Answer(error="reset", sent=Sent.SOME)
    finally:
        connection.close()
