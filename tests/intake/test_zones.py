"""Zones by every name that somebody may give them, and the version of the data behind them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from duly.intake import Rejection
from duly.intake.zones import find, version, version_of
from tests.intake.samples import intake, row


@pytest.mark.parametrize(
    ("name", "same_as"),
    [
        ("Europe/Kiev", "Europe/Kyiv"),
        ("Europe/Kyiv", "Europe/Kyiv"),
        ("Asia/Calcutta", "Asia/Kolkata"),
        ("America/Godthab", "America/Nuuk"),
        ("US/Pacific-New", "America/Los_Angeles"),
        ("US/Eastern", "America/New_York"),
        ("Eastern Standard Time", "America/New_York"),
        ("W. Europe Standard Time", "Europe/Berlin"),
        ("UTC-11", "Etc/GMT+11"),
        ("UTC", "UTC"),
    ],
)
def test_a_zone_has_many_names(name: str, same_as: str) -> None:
    """Old names, new names and those of Windows find the same clocks; what is kept is a name of IANA."""
    found = find(name, "zone")
    for month in (1, 7):
        moment = datetime(2026, month, 1, tzinfo=UTC)
        assert found.utcoffset(moment.astimezone(found)) == find(same_as, "zone").utcoffset(
            moment.astimezone(find(same_as, "zone"))
        )
    assert " " not in found.key


@pytest.mark.parametrize(
    "name", ["right/UTC", "posix/Europe/Berlin", "Factory", "eastern standard time", "", "Europe/", "\0"]
)
def test_what_is_no_zone(name: str) -> None:
    """Zones with leap seconds, files that are no zones, and names that nothing has."""
    with pytest.raises(Rejection, match="there is no such time zone"):
        find(name, "zone")


def test_a_windows_name_becomes_an_iana_name() -> None:
    """Whoever reads the ledger finds a zone by the name that is kept."""
    made = intake().accept(
        row(
            notify_at="2026-12-01T09:00",
            zone="Tokyo Standard Time",
            to={"id": "r", "zone": "US/Eastern"},
            channels=["email"],
        )
    )
    assert (made.zone, made.recipient_zone) == ("Asia/Tokyo", "US/Eastern")


def made_folder(root: Path, **files: str) -> tuple[str, ...]:
    """A folder of zone data."""
    (root / "Etc").mkdir()
    (root / "Etc" / "UTC").write_text("data")
    for name, text in files.items():
        (root / name.replace("_", ".")).write_text(text)
    return (str(root),)


def test_the_version_is_that_of_the_data_which_are_read(tmp_path: Path) -> None:
    """The first folder that has zones tells it; where there is none, the package."""
    assert version_of(made_folder(tmp_path, tzdata_zi="# version 2025b\nR A 1916 o")) == "2025b"
    assert version_of(("/no/such/folder", str(tmp_path))) == "2025b"
    assert version_of(()) == version_of(("/no/such/folder",))
    assert version_of(())[:2] == "20"
    assert version()


def test_a_version_in_another_file(tmp_path: Path) -> None:
    """Some systems keep it in +VERSION."""
    folder = made_folder(tmp_path)
    (tmp_path / "+VERSION").write_text("2024a\n")
    assert version_of(folder) == "2024a"


def test_data_without_a_version_have_a_hash(tmp_path: Path) -> None:
    """Other data have another one."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first = version_of(made_folder(tmp_path / "a", tzdata_zi="no version here"))
    folder = made_folder(tmp_path / "b")
    (tmp_path / "b" / "UTC").write_text("other data")
    assert first.startswith("unnamed-")
    assert version_of(folder).startswith("unnamed-")
    assert version_of(folder) != first
