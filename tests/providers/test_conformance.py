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
from duly.core.model import Outcome, Result
from duly.ports import Answer, HttpRequest, Mail, Provider, Sent
from duly.testing.receiver import Receiver
from tests.providers.conformance import (
    CASES,
    CONTENT,
    NOW,
    SECRET,
    Case,
    carries,
    check_no_injection,
    check_nothing_left,
    check_result,
    check_some_left,
    freeze,
    request,
    requests_of_hostile_rows,
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
        results = [
            await asyncio.to_thread(_send, provider, one, wait) for one, wait in zip(sent, (0.3, 10), strict=True)
        ]
        assert [result.outcome for result in results] == [Outcome.UNKNOWN, Outcome.ACCEPTED]
        assert receiver.accepted == [keys.show(row.id)]
        assert (receiver.duplicates_dropped, receiver.bad_signatures) == (1, 0)
        assert len({one.body for one in receiver.received("lost", "7")}) == 1


def _send(provider: Provider, sent: HttpRequest | Mail, patience: float) -> Result:
    """A sender small enough to be believed: one request, one answer or a time-out."""
    assert isinstance(sent, HttpRequest)
    parts = urlsplit(sent.url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=patience)
    try:
        connection.request("POST", parts.path, sent.body, dict(sent.headers))
        came = connection.getresponse()
        answer = Answer(came.status, {name.lower(): value for name, value in came.getheaders()}, came.read())
    except TimeoutError:
        answer = Answer(error="timeout", sent=Sent.SOME)
    finally:
        connection.close()
    return provider.classify(answer, NOW)
