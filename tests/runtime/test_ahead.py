"""Claims run one batch ahead, and nothing that was claimed is forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from duly.errors import StoreUnavailable
from duly.ports import Batch
from duly.runtime.ahead import ClaimAhead
from duly.testing.clock import START


def batch(number: int) -> Batch:
    """A batch that can be told from others."""
    return Batch(float(number), START, [])


class Source:
    """Where batches come from: the given ones in turn, then nothing. `asked` are the limits."""

    def __init__(self, *answers: Batch | Exception | None) -> None:
        self.asked: list[int] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self._answers = list(answers)

    async def __call__(self, limit: int) -> Batch | None:
        """One claim."""
        self.asked.append(limit)
        await self.gate.wait()
        answer = self._answers.pop(0) if self._answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer


def played(scenario: Callable[[], Coroutine[Any, Any, None]]) -> bool:
    """Whether the scenario came to its end in good time."""
    asyncio.run(asyncio.wait_for(scenario(), 60.0))
    return True


def test_the_next_batch_is_claimed_while_this_one_is_worked_on() -> None:
    """Exactly one claim runs ahead, with the limit of the last take."""

    async def scenario() -> None:
        source = Source(batch(1), batch(2), batch(3))
        claims = ClaimAhead(source)
        assert await claims.take(10, 1.0) == batch(1)
        await asyncio.sleep(0.01)
        assert source.asked == [10, 10]
        assert await claims.take(20, 1.0) == batch(2)
        await asyncio.sleep(0.01)
        assert source.asked == [10, 10, 20]
        await claims.close()

    assert played(scenario)


def test_a_batch_that_takes_long_is_not_lost() -> None:
    """Whoever does not wait for it gets it the next time."""

    async def scenario() -> None:
        source = Source(batch(1))
        source.gate.clear()
        claims = ClaimAhead(source)
        assert await claims.take(10, 0.01) is None
        assert await claims.take(10, 0.0) is None
        source.gate.set()
        assert await claims.take(10, 1.0) == batch(1)
        assert source.asked[0] == 10
        await claims.close()

    assert played(scenario)


def test_what_is_claimed_ahead_is_there_without_waiting() -> None:
    """A take that may not wait at all still gets what has come."""

    async def scenario() -> None:
        claims = ClaimAhead(Source(batch(1), batch(2)))
        await claims.take(10, 1.0)
        await asyncio.sleep(0.01)
        assert await claims.take(10, 0.0) == batch(2)
        await claims.close()

    assert played(scenario)


def test_where_nothing_is_ready_no_claim_runs_ahead() -> None:
    """An empty ledger is asked at the pace of the takes, which pause a little."""

    async def scenario() -> None:
        source = Source()
        claims = ClaimAhead(source)
        began = asyncio.get_running_loop().time()
        for _ in range(3):
            assert await claims.take(10, 0.02) is None
        assert asyncio.get_running_loop().time() - began >= 0.05
        assert source.asked == [10, 10, 10]
        assert await claims.close() is None
        assert source.asked == [10, 10, 10]

    assert played(scenario)


def test_an_error_is_raised_by_take_and_is_over_then() -> None:
    """What went wrong ahead is told to whoever takes, once; the next take asks anew."""

    async def scenario() -> None:
        claims = ClaimAhead(Source(batch(1), StoreUnavailable("away"), batch(2)))
        await claims.take(10, 1.0)
        with pytest.raises(StoreUnavailable, match="away"):
            await claims.take(10, 1.0)
        assert await claims.take(10, 1.0) == batch(2)
        await claims.close()

    assert played(scenario)


def test_closing_gives_back_what_was_claimed_ahead() -> None:
    """A claim under way is waited for, because its rows are leased; after it nothing is claimed."""

    async def scenario() -> None:
        source = Source(batch(1), batch(2), batch(3))
        claims = ClaimAhead(source)
        await claims.take(10, 1.0)
        source.gate.clear()
        asyncio.get_running_loop().call_later(0.02, source.gate.set)
        assert await claims.close() == batch(2)
        assert await claims.take(10, 1.0) is None
        assert await claims.close() is None
        assert source.asked == [10, 10]

    assert played(scenario)


def test_closing_before_the_first_take_and_after_an_error_gives_nothing() -> None:
    """There is nothing to give back, and an error of a claim that nobody wants is nobody's."""

    async def scenario() -> None:
        assert await ClaimAhead(Source(batch(1))).close() is None
        claims = ClaimAhead(Source(batch(1), StoreUnavailable("away")))
        await claims.take(10, 1.0)
        assert await claims.close() is None

    assert played(scenario)
