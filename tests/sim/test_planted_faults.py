"""The judge says no: every planted fault is found by playing seeds, and where nothing is planted nothing is found.

Each fault is planted in a copy of the source, and the program is run on it as anybody would run it. Two run at a time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from duly.sim.checkers import CHECKERS
from tests.sim.planted import FAULTS, SEEDS_MAX, SOURCE, Planted, copy_source, plant

PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "planted-faults.md"
AT_ONCE: Final = 2
PLAY_SECONDS_MAX: Final = 300
#: That no seed up to 200 fails on the source as it is, is shown in test_seeds.py: here is shown that a copy plays.
CLEAN_SEEDS: Final = 20


class Played(NamedTuple):
    """How a run ended: its exit code, its document, and what it said beside it."""

    code: int
    document: dict[str, Any]
    said: str


def _play(fault: Planted | None) -> Played:
    """Run seeds on a copy of the source, with the fault planted in it."""
    with tempfile.TemporaryDirectory(prefix="duly-planted-") as name:
        root = copy_source(Path(name))
        if fault is not None:
            plant(fault, root)
        return _simulate(root.parent, CLEAN_SEEDS if fault is None else SEEDS_MAX)


def _simulate(folder: Path, seeds: int) -> Played:
    measured = ("COV_", "COVERAGE_")  # a copy is not what coverage is measured of
    environ = {name: value for name, value in os.environ.items() if not name.startswith(measured)}
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "duly",
            "simulate",
            "--seeds",
            str(seeds),
            "--no-shrink",
            "--json",
        ],
        cwd=folder,
        env={**environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=PLAY_SECONDS_MAX,
        check=False,
    )
    return Played(run.returncode, json.loads(run.stdout or "{}"), run.stderr)


@pytest.fixture(scope="module")
def plays(request: pytest.FixtureRequest) -> Iterator[dict[Planted | None, Future[Played]]]:
    """The run of every fault that this session asks for, and one of the source as it is (None)."""
    functions = (item for item in request.session.items if isinstance(item, pytest.Function))
    params = [item.callspec.params for item in functions if hasattr(item, "callspec")]
    wanted = [None, *(each["fault"] for each in params if isinstance(each.get("fault"), Planted))]
    pool = ThreadPoolExecutor(AT_ONCE)
    yield {fault: pool.submit(_play, fault) for fault in dict.fromkeys(wanted)}
    pool.shutdown(cancel_futures=True)


def test_a_copy_without_a_fault_holds(plays: dict[Planted | None, Future[Played]]) -> None:
    """What is not planted is not found: a plain copy plays without a violation."""
    played = plays[None].result()
    assert (played.code, played.document.get("violations")) == (0, 0), played.said
    assert played.document["seeds"] == CLEAN_SEEDS


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name.replace(" ", "-"))
def test_a_planted_fault_is_found(fault: Planted, plays: dict[Planted | None, Future[Played]]) -> None:
    """Within that many seeds the simulation fails, by a checker whose sentence the fault breaks."""
    played = plays[fault].result()
    assert played.code == 1, f"{SEEDS_MAX} seeds did not find it: {played.document or played.said}"
    checker, _, complaint = played.document["violation"].partition(": ")
    assert checker in fault.caught_by, f"found by another checker, {checker}: {complaint}"


# --- the list ------------------------------------------------------------------------------------


def test_there_are_many_faults_and_each_is_another() -> None:
    """At least thirty, each with a name of its own, in a text of its own."""
    assert len(FAULTS) >= 30
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert len({(fault.file, fault.original, fault.replacement) for fault in FAULTS}) == len(FAULTS)


def test_who_finds_faults_is_a_checker() -> None:
    """Every name is that of a checker, or of the ledger's own invariants; a crash finds nothing."""
    known = {checker.__name__ for checker in CHECKERS} | {"Invariants"}
    assert {name for fault in FAULTS for name in fault.caught_by} <= known
    assert all(fault.caught_by for fault in FAULTS)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name.replace(" ", "-"))
def test_every_fault_still_fits_the_source(fault: Planted) -> None:
    """Its original text stands in the source exactly once, and what replaces it is something else."""
    for file, original, replacement in fault.edits():
        assert (SOURCE / file).read_text(encoding="utf-8").count(original) == 1
        assert original != replacement


@pytest.mark.parametrize(("text", "count"), [("nothing of it", 0), ("the line\nthe line\n", 2)])
def test_a_fault_that_does_not_fit_is_refused(tmp_path: Path, text: str, count: int) -> None:
    """Where the original text is not there exactly once, nothing is edited, and the message says what to do."""
    (tmp_path / "file.py").write_text(text, encoding="utf-8")
    fault = replace(FAULTS[0], name="of old", file="file.py", original="the line\n")
    with pytest.raises(LookupError, match=f"'of old': its original text stands {count} times in src/duly/file.py"):
        plant(fault, tmp_path)
    assert (tmp_path / "file.py").read_text(encoding="utf-8") == text


def test_a_fault_in_a_file_that_is_gone_is_refused(tmp_path: Path) -> None:
    """A file that is not there holds its original text no time at all."""
    with pytest.raises(LookupError, match="stands 0 times"):
        plant(replace(FAULTS[0], file="gone.py"), tmp_path)


def test_the_page_shows_the_list() -> None:
    """The table of the reference page has exactly the rows of the list, in its order."""
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| **")]
    assert rows == [fault.row() for fault in FAULTS]
