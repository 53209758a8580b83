"""Tick: what is due becomes deliveries, once, whoever else is at it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from duly.core.model import Fired
from duly.errors import StoreUnavailable
from duly.flows.tick import TICK_BATCH_ROWS, Ticked, tick
from duly.intake import zones
from duly.ports import Materialised
from duly.testing.builders import NAMESPACE, PROVIDERS
from duly.testing.driving import drive
from tests.flows.scene import Scene, delivery_id


def ticked(scene: Scene, **limits: int) -> Ticked:
    """One run."""
    return drive(tick(scene.store, NAMESPACE, PROVIDERS, zones.known, **limits))


def test_what_is_due_becomes_deliveries_and_the_rest_stays(scene: Scene) -> None:
    """Reminders that are due are written as ready deliveries; one that is due later is not looked at."""
    scene.schedule("a", "b")
    scene.schedule("later", due_in=60.0)
    assert ticked(scene) == Ticked(due=2, created=2, already=0, remaining=False)
    assert [scene.stands(delivery_id(key)) for key in ("a", "b")] == [("ready", None)] * 2
    assert scene.value("select count(*) from delivery") == 2


def test_nothing_due_is_nothing_done(scene: Scene) -> None:
    """A tick of an empty ledger writes nothing."""
    assert ticked(scene) == Ticked(0, 0, 0, remaining=False)
    assert scene.unsteady.called("materialise") == []


def test_a_tick_that_is_repeated_writes_nothing_new(scene: Scene) -> None:
    """What one tick has moved on, the next does not find."""
    scene.schedule("a")
    ticked(scene)
    assert ticked(scene) == Ticked(0, 0, 0, remaining=False)
    assert scene.value("select count(*) from delivery") == 1


def test_a_reminder_that_is_due_again_finds_its_delivery_there(scene: Scene) -> None:
    """Set back to due (a restored table), a reminder becomes the same delivery: already there, and not sent again."""
    (delivery,) = scene.ready("a")
    scene.deliver()
    scene.change("update reminder set status = 'active', next_due_at = 1")
    assert ticked(scene) == Ticked(due=1, created=0, already=1, remaining=False)
    scene.deliver()
    assert scene.stands(delivery) == ("sent", "accepted")
    assert len(scene.requests()) == 1


def test_what_another_tick_was_faster_with_is_not_counted(scene: Scene) -> None:
    """A reminder that somebody else moved on between read and write counts as neither due nor created here."""
    scene.schedule("a", "b")

    class Overtaken:
        """The store, with another tick at work between `due` and `materialise`."""

        def __getattr__(self, name: str) -> object:
            return getattr(scene.store, name)

        async def materialise(self, fired: Sequence[Fired]) -> Materialised:
            await scene.store.materialise(fired[:1])
            return await scene.store.materialise(fired)

    assert drive(tick(Overtaken(), NAMESPACE, PROVIDERS, zones.known)) == Ticked(1, 1, 0, remaining=False)  # type: ignore[arg-type]
    assert scene.value("select count(*) from delivery") == 2


def test_a_run_is_bounded_and_says_that_more_is_due(scene: Scene) -> None:
    """A run takes as many as it may, oldest first, and leaves the rest for the next."""
    scene.schedule("first", due_in=-10.0)
    scene.schedule("second", due_in=-5.0)
    scene.schedule("third", due_in=-1.0)
    assert ticked(scene, rows_max=2) == Ticked(due=2, created=2, already=0, remaining=True)
    assert scene.value("select count(*) from work where delivery_id in (select id from delivery)") == 2
    assert scene.stands(delivery_id("first")) == scene.stands(delivery_id("second")) == ("ready", None)
    assert ticked(scene) == Ticked(due=1, created=1, already=0, remaining=False)


def test_a_long_run_goes_in_batches(scene: Scene) -> None:
    """More than one batch's worth is read and written batch by batch, in one run."""
    count = TICK_BATCH_ROWS + 1
    scene.schedule(*(f"r{number}" for number in range(count)))
    assert ticked(scene) == Ticked(count, count, 0, remaining=False)
    assert [len(fired) for (fired,) in scene.unsteady.called("materialise")] == [TICK_BATCH_ROWS, 1]


def test_a_lost_reply_is_made_good_by_the_next_run(scene: Scene) -> None:
    """A tick whose commit was not confirmed may simply be run again."""
    scene.schedule("a")
    scene.unsteady.lose("materialise")
    with pytest.raises(StoreUnavailable):
        ticked(scene)
    assert ticked(scene) == Ticked(0, 0, 0, remaining=False)
    assert scene.stands(delivery_id("a")) == ("ready", None)
