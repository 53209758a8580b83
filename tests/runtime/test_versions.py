"""Versions of templates: kept by an import, fetched by a worker, and never in the way of a batch that was claimed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from duly.content import Template, TemplateSet
from duly.errors import StoreError, StoreUnavailable, VersionUnknown
from duly.ports import HttpRequest
from duly.runtime.versions import KEPT_AT_ONCE_ROWS, KNOWN_VERSIONS_MAX, PinnedTemplates, keep
from duly.runtime.worker import Worker
from duly.testing.driving import drive
from tests.core.values import claimed
from tests.flows.scene import Scene, scene_in
from tests.runtime.world import World, play

NEW, OLD = Template("note", "", "new"), Template("note", "s", "old", "<p>o</p>", 3, sms_to_gsm=True)
CONFIGURED = TemplateSet({"note": NEW})


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """An empty ledger."""
    with scene_in(tmp_path) as opened:
        yield opened


def text(pinned: PinnedTemplates, version: str | None) -> str:
    """What a row says that is pinned to a version."""
    return pinned.render(claimed(template_version=version)).text


def learn(pinned: PinnedTemplates, *versions: str | None) -> None:
    """Claimed rows of these versions come by."""
    drive(pinned.learn([claimed(template_version=version) for version in versions]))


def test_a_version_is_fetched_when_a_row_needs_it(scene: Scene) -> None:
    """What an earlier configuration has kept is rendered by a worker of a later one."""
    drive(keep(scene.store, TemplateSet({"note": OLD})))
    pinned = PinnedTemplates(scene.store, CONFIGURED)
    learn(pinned, OLD.version, NEW.version, None)
    assert (text(pinned, OLD.version), text(pinned, NEW.version), text(pinned, None)) == ("old", "new", "new")
    assert pinned.render(claimed(template_version=OLD.version)).version == OLD.version


def test_what_is_known_is_not_asked_for(scene: Scene) -> None:
    """The ledger is asked once for a version, and never for the current one or for none."""
    drive(keep(scene.store, TemplateSet({"note": OLD})))
    pinned = PinnedTemplates(scene.store, CONFIGURED)
    learn(pinned, None, NEW.version)
    assert scene.unsteady.called("template_sources") == []
    learn(pinned, OLD.version, OLD.version)
    learn(pinned, OLD.version)
    assert scene.unsteady.called("template_sources") == [([("note", OLD.version)],)]


@pytest.mark.parametrize("error", [StoreUnavailable("away"), StoreError("refused")])
def test_a_ledger_that_does_not_answer_costs_no_batch(scene: Scene, error: Exception) -> None:
    """The rows stay claimed, those of the unknown version cannot be rendered, and the next look finds it."""
    drive(keep(scene.store, TemplateSet({"note": OLD})))
    pinned = PinnedTemplates(scene.store, CONFIGURED)
    scene.unsteady.refuse("template_sources", error)
    learn(pinned, OLD.version)
    with pytest.raises(VersionUnknown):
        text(pinned, OLD.version)
    learn(pinned, OLD.version)
    assert text(pinned, OLD.version) == "old"


def test_a_version_that_is_nowhere_is_unknown(scene: Scene) -> None:
    """What nobody has kept is asked for each time, and renders nothing."""
    pinned = PinnedTemplates(scene.store, CONFIGURED)
    learn(pinned, "0123456789ab")
    with pytest.raises(VersionUnknown):
        text(pinned, "0123456789ab")


def test_what_is_known_is_bounded(scene: Scene) -> None:
    """However many versions there were, a worker holds so many at most, and fetches again what it has forgotten."""
    versions = [Template("note", "", f"old {number}") for number in range(KNOWN_VERSIONS_MAX + 1)]
    for one in versions:
        drive(keep(scene.store, TemplateSet({"note": one})))
    pinned = PinnedTemplates(scene.store, CONFIGURED)
    learn(pinned, *(one.version for one in versions[:-1]))
    assert text(pinned, versions[0].version) == "old 0"
    learn(pinned, versions[-1].version)
    assert text(pinned, versions[-1].version) == f"old {KNOWN_VERSIONS_MAX}"
    with pytest.raises(VersionUnknown):
        text(pinned, versions[0].version)


def test_an_import_keeps_what_is_configured(scene: Scene) -> None:
    """Every configured template is kept, in batches, and the same again writes nothing."""
    many = TemplateSet({f"t{number}": Template(f"t{number}", "", "x") for number in range(KEPT_AT_ONCE_ROWS + 1)})
    for _ in range(2):
        drive(keep(scene.store, many))
        assert scene.value("select count(*) from template") == KEPT_AT_ONCE_ROWS + 1
    assert max(len(rows) for (rows,) in scene.unsteady.called("keep_templates")) == KEPT_AT_ONCE_ROWS


def test_a_worker_learns_before_it_sends(tmp_path: Path) -> None:
    """A row of an earlier version is sent in the first round."""

    async def story(made: World) -> None:
        await keep(made.store, TemplateSet({"note": OLD}))
        await made.ready("a", template_version=OLD.version)
        pinned = PinnedTemplates(made.store, CONFIGURED)
        plant = replace(made.plant(), templates=pinned, learn=pinned.learn)
        await Worker(plant, "w1").run(idle_after=60.0)
        assert await made.states() == {"sent": 1}

    (request,) = play(tmp_path, story).transport.left
    assert isinstance(request.content, HttpRequest)
    assert b'"text":"old"' in request.content.body
