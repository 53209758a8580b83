"""Every case of the conformance suite, on every dialect, with the watch around it that the suite describes."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from duly.core.states import TRANSITIONS
from tests.stores.conformance import (
    CASES,
    Case,
    beginning,
    cancelling,
    capping,
    claiming,
    consenting,
    deciding,
    doubling,
    folding,
    forgetting,
    guarding,
    hindering,
    holding,
    looking,
    peopling,
    pinning,
    renewing,
    requeueing,
    rescheduling,
    revising,
    rezoning,
    scheduling,
    settling,
    suppressing,
    suspecting,
    ticking,
    together,
    transitions,
    upkeep,
    viewing,
)
from tests.stores.conformance.scene import WALKED, Scene
from tests.stores.ledgers import Harness

MODULES: Final = (
    scheduling,
    ticking,
    claiming,
    beginning,
    deciding,
    settling,
    upkeep,
    cancelling,
    viewing,
    looking,
    holding,
    suspecting,
    renewing,
    doubling,
    forgetting,
    together,
    transitions,
    folding,
    guarding,
    hindering,
    suppressing,
    consenting,
    peopling,
    rescheduling,
    revising,
    rezoning,
    requeueing,
    capping,
    pinning,
)
RUN: Final[set[str]] = set()


async def _play(case: Case, harness: Harness) -> list[tuple[str, int]]:
    async with harness.open() as ledger:
        scene = Scene(ledger)
        await case(scene)
        return list(await scene.broken_invariants())


@pytest.mark.parametrize("name", CASES)
def test_the_store_keeps_its_contract(name: str, harness: Harness) -> None:
    """The case holds, nothing moved as it must not, and every invariant holds at its end."""
    RUN.add(name)
    assert asyncio.run(_play(CASES[name], harness)) == []


def test_the_suite_walks_every_arrow() -> None:
    """No arrow of the table of transitions is neither walked by a case nor excused."""
    if len(RUN) < len(CASES):
        pytest.skip("only some of the cases ran")
    arrows = {(origin, target) for origin, targets in TRANSITIONS.items() for target in targets}
    assert arrows - WALKED == set(transitions.NOT_WALKED)


def test_every_case_is_collected() -> None:
    """Each module of the suite has registered its cases."""
    owners = {case.__module__ for case in CASES.values()}
    assert owners == {module.__name__ for module in MODULES}
