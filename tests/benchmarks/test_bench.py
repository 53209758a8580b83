"""The benchmark itself: that its parts run, and that it refuses figures that would be wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import doctor
from bench.__main__ import main
from bench.delivering import _refuse_losses
from bench.programs import Failed
from duly.stores.loader import load

ROWS = 300
ALL_SENT = {"attempts": ROWS, "accepted": ROWS, "frozen": ROWS, "sent": ROWS, "open": 0}
EACH_ONCE = {"requests": ROWS, "accepted": ROWS}


def test_work_and_import_are_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A small run writes its figures, the ratio to the ideal loop among them, and prints the table."""
    file = tmp_path / "figures.json"
    options = ["--only", "work,import", "--database", "sqlite", "--rounds", "1", "--rows", str(ROWS)]
    assert main([*options, "--json", str(file)]) == 0
    measured = json.loads(file.read_text("utf-8"))["databases"]["sqlite"]
    assert measured["work"]["ratio"] > 0
    assert measured["import"]["rows"] == ROWS
    assert "duly" in capsys.readouterr().out


def test_schedules_are_measured(tmp_path: Path) -> None:
    """A tenth of the reminders is due, each once, in whatever way it repeats."""
    file = tmp_path / "figures.json"
    options = ["--only", "schedules", "--database", "sqlite", "--rows", "800", "--json", str(file)]
    assert main(options) == 0
    measured = json.loads(file.read_text("utf-8"))["databases"]["sqlite"]["schedules"]
    assert (measured["reminders"], measured["rows"]) == (800, 80)


@pytest.mark.parametrize("part", ["work,play", ""])
def test_an_unknown_part_is_wrong_usage(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A part that is not there is refused, with the names of those that are."""
    with pytest.raises(SystemExit, match="2"):
        main(["--only", part])
    assert "work, tick, schedules, memory, import" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("counted", "received", "sent"),
    [
        (ALL_SENT, {"requests": ROWS + 1, "accepted": ROWS}, ROWS),
        ({**ALL_SENT, "attempts": ROWS + 1}, EACH_ONCE, ROWS),
        ({**ALL_SENT, "sent": ROWS - 1, "open": 1}, EACH_ONCE, ROWS),
        (ALL_SENT, EACH_ONCE, ROWS - 1),
    ],
)
def test_a_run_that_lost_or_repeated_something_has_no_figure(
    counted: dict[str, int], received: dict[str, int], sent: int
) -> None:
    """The ledger, the stub and the program must all have counted every delivery once."""
    _refuse_losses(ALL_SENT, EACH_ONCE, ROWS, ROWS)
    with pytest.raises(Failed, match=str(ROWS)):
        _refuse_losses(counted, received, sent, ROWS)


def test_the_doctor_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """Each statement of the doctor has its figure, on a ledger in which it finds nothing."""
    assert doctor.main(["--rows", "2000", "--database", "sqlite"]) == 0
    told = capsys.readouterr().out
    names = [name for name in load("sqlite") if name.startswith(doctor.CHECKS)]
    assert [name for name in names if f"  {name} " not in told] == []
