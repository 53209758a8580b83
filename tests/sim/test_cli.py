"""`duly simulate`: what it prints, and with what it exits."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

import pytest
import typer
from typer.testing import CliRunner, Result

from duly.cli.app import build
from duly.cli.commands.simulate import Play, answer, register
from duly.cli.surface import Shared, Surface
from duly.sim.history import History
from duly.sim.plan import draw
from duly.sim.report import Report
from duly.sim.run import Ended
from duly.sim.truth import Complaint, Violation

ONE: Final = bytes(16)


def duly(*arguments: str) -> Result:
    """Run the program in this process."""
    return CliRunner().invoke(build(), arguments, catch_exceptions=False)


def _ended() -> Ended:
    """How a world ended that failed."""
    history = History()
    history.add(1_000_000, "w1", "is about it", ONE)
    violation = Violation("NothingTwice", Complaint(ONE, "its receiver accepted it a second time"))
    return Ended(replace(draw(7), reminders=draw(7).reminders[:1]), 10, 9, {}, {}, {}, history, violation)


def _failed() -> Report:
    """A report of a world that failed."""
    report, ended = Report(), _ended()
    report.add(ended)
    report.failed = report.smallest = ended
    return report


def test_seeds_that_hold_exit_with_nothing_wrong() -> None:
    """Without a violation it exits 0 and says how much was played."""
    run = duly("simulate", "--seeds", "2", "--first", "1")
    assert run.exit_code == 0
    assert run.stdout.startswith("2 seeds, 0 violations, ")


def test_json_has_the_words_of_the_surface() -> None:
    """One document, with the surface's fields and what was exercised."""
    document: dict[str, Any] = json.loads(duly("simulate", "--seeds", "2", "--json").stdout)
    assert (document["seeds"], document["violations"]) == (2, 0)
    assert document["steps"] > 0
    assert document["seconds"] > 0
    assert document["calls_median"] > 0
    assert document["transitions"]["(new) -> ready"] > 0
    assert document["transitions_not_made"]["leased -> shadowed"]
    assert set(document["faults"]) >= {"freeze", "store_reply_lost", "poison"}
    assert document["failing_seed"] is None


def test_a_trace_tells_every_call() -> None:
    """With --trace the lines of the world come before the summary, and are in the document of --json."""
    run = duly("simulate", "--seeds", "1", "--trace")
    assert "materialise" in run.stdout
    document = json.loads(duly("simulate", "--seeds", "1", "--trace", "--json").stdout)
    assert document["trace"][0] in run.stdout


def test_a_failing_seed_is_told_and_exits_1(capsys: pytest.CaptureFixture[str]) -> None:
    """The seed, the smallest world, the story, and how to play it again stand on stderr; the exit code is 1."""
    with pytest.raises(typer.Exit) as left:
        answer(Surface(as_json=True, config_path=None), _failed(), 1.5, None)
    told = capsys.readouterr()
    assert left.value.exit_code == 1
    document = json.loads(told.out)
    assert (document["violations"], document["failing_seed"]) == (1, 7)
    assert "seed 7: NothingTwice: its receiver accepted it a second time" in told.err
    assert "smallest world found: workers" in told.err
    assert "w1           is about it" in told.err
    assert "duly simulate --first 7 --seeds 1 --trace" in told.err


@pytest.mark.parametrize(("arguments", "shrinks"), [((), True), (("--shrink",), True), (("--no-shrink",), False)])
def test_a_failing_world_is_made_smaller_unless_one_says_no(arguments: tuple[str, ...], shrinks: bool) -> None:
    """The smallest world that fails is looked for unless --no-shrink is given."""
    asked: list[tuple[range, bool]] = []

    def play(_surface: Surface, seeds: range, _traced: list[str] | None, *, shrinks: bool) -> Report:
        asked.append((seeds, shrinks))
        return _failed()

    assert CliRunner().invoke(_program(play), ["simulate", "--seeds", "3", *arguments]).exit_code == 1
    assert asked == [(range(1, 4), shrinks)]


def _program(play: Play) -> typer.Typer:
    """`duly` with this one command, whose worlds are the test's."""
    app = typer.Typer()

    @app.callback()
    def root(context: typer.Context) -> None:
        context.obj = Shared(None, as_json=False)

    register(app, play)
    return app


@pytest.mark.parametrize("arguments", [("--seeds", "0"), ("--first", "-1"), ("--seeds", "many")])
def test_wrong_usage_exits_2(arguments: tuple[str, str]) -> None:
    """No seeds, a negative seed and words are wrong usage."""
    assert duly("simulate", *arguments).exit_code == 2
