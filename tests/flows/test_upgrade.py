"""Upgrade: the whole ledger is walked, a page at a time, and may be walked again."""

from __future__ import annotations

import pytest

from duly.errors import StoreUnavailable
from duly.flows.upgrade import UPGRADE_PAGE_ROWS, upgrade
from duly.ports import Upgraded
from duly.testing.driving import drive
from tests.flows.scene import Scene


def upgraded(scene: Scene, account: str | None = None) -> Upgraded:
    """Every reminder of the template `note` comes to version v2."""
    return drive(upgrade(scene.store, "note", "v2", account=account, why="a mistyped word", actor="ana"))


def test_every_page_is_moved(scene: Scene) -> None:
    """More reminders than a page holds are all moved, and no page is larger than it may be."""
    count = UPGRADE_PAGE_ROWS + 1
    scene.schedule(*(f"r{number}" for number in range(count)), due_in=60.0, template_version="v1")
    assert upgraded(scene) == Upgraded(count, 0, None)
    assert scene.value("select count(*) from reminder where template_version = 'v2'") == count
    pages = [wanted for _, _, wanted in scene.unsteady.called("upgrade_template")]
    assert [page.limit for page in pages] == [UPGRADE_PAGE_ROWS] * 2
    assert upgraded(scene) == Upgraded(0, 0, None)


def test_what_is_under_way_is_counted(scene: Scene) -> None:
    """A reminder that goes on while a delivery of it is open is told and not moved, unless its account is another."""
    scene.ready("a", template_version="v1")
    scene.change("update reminder set next_due_at = deadline_at, status = 'active'")
    assert upgraded(scene) == Upgraded(0, 1, None)
    assert upgraded(scene, "bold") == Upgraded(0, 0, None)


def test_it_may_be_stopped_and_run_again(scene: Scene) -> None:
    """A page whose reply was lost is moved, and the rest is moved the next time."""
    scene.schedule(*(f"r{number}" for number in range(UPGRADE_PAGE_ROWS + 5)), due_in=60.0, template_version="v1")
    scene.unsteady.lose("upgrade_template")
    with pytest.raises(StoreUnavailable):
        upgraded(scene)
    assert upgraded(scene) == Upgraded(5, 0, None)
