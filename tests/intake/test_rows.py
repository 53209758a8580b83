"""Files and streams are opened, told apart and counted; rejected rows are set aside."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import pytest

from duly.errors import InputError
from duly.intake import RejectedFile, Rejection, open_rows, read
from tests.intake.samples import rows_of

CSV: Final = "idempotency_key,account,template,notify_at\nk,a,note,2026-12-01T09:00Z\n"
AS_CSV: Final = {"idempotency_key": "k", "account": "a", "template": "note", "notify_at": "2026-12-01T09:00Z"}


# --- reading -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.jsonl", '{"a":1}', {"a": 1}),
        ("a.JSONL", '{"a":1}', {"a": 1}),
        ("a.ndjson", '{"a":1}', {"a": 1}),
        ("a.json", '{"a":1}', {"a": 1}),
        ("a.csv", CSV, AS_CSV),
        ("a.tsv", CSV.replace(",", "\t"), AS_CSV),
        ("a.txt", CSV, AS_CSV),
        ("a", '\n  {"a":1}', {"a": 1}),
        ("a", "\ufeff" + CSV, AS_CSV),
    ],
)
def test_the_format_is_told_by_name_or_by_content(tmp_path: Path, name: str, content: str, expected: Any) -> None:
    """Endings decide; without a known one, the first character does."""
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    with read(path) as rows:
        assert [row for _, row in rows] == [expected]


def test_a_stream_is_sniffed_unless_told() -> None:
    """The caller's word comes first."""
    assert rows_of('{"a":1}') == [(1, {"a": 1})]
    assert rows_of(CSV)[0][1] == AS_CSV
    with pytest.raises(InputError, match="is no field"):
        rows_of('{"a":1}', "csv")


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_an_empty_stream_has_no_rows(content: str) -> None:
    """Nothing in, nothing out, whatever it would have been."""
    assert rows_of(content) == []


def test_an_array_is_recognised_without_a_name() -> None:
    """The hint about arrays comes also where the format had to be guessed."""
    with pytest.raises(InputError, match="one JSON array"):
        rows_of('[{"a":1}]')


def test_progress_is_counted_in_bytes(tmp_path: Path) -> None:
    """What was read and what there is are known, so that a bar can be drawn."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a":1}\n{"a":2}\n')
    with read(path) as rows:
        assert (rows.bytes_read, rows.total_bytes) == (0, 19)
        next(rows)
        assert rows.bytes_read == 11
        assert [line for line, _ in rows] == [2]
        assert rows.bytes_read == 19


def test_a_pipe_has_no_known_end() -> None:
    """Its length cannot be asked for."""
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb") as out:
        out.write(b'{"a":1}\n')
    with os.fdopen(reader, "rb") as stream:
        rows = read(stream)
        assert rows.total_bytes is None
        assert list(rows) == [(1, {"a": 1})]
        rows.close()
        assert not stream.closed


def test_standard_input_is_called_dash(tmp_path: Path) -> None:
    """`-` reads what is piped in, in either format, and any other name is a file's."""
    program = "from duly.intake import open_rows; print(list(open_rows('-')))"
    for content, rows in (('{"a":1}\n', [(1, {"a": 1})]), (CSV, [(2, AS_CSV)])):
        run = subprocess.run([sys.executable, "-c", program], input=content, capture_output=True, text=True, check=True)
        assert run.stdout.strip() == str(rows)
    with pytest.raises(InputError, match=r"no-such\.jsonl cannot be opened: No such file"):
        open_rows(str(tmp_path / "no-such.jsonl"))


@pytest.mark.parametrize("name", ["missing.jsonl", ".", "a\0b"])
def test_what_cannot_be_opened(tmp_path: Path, name: str) -> None:
    """A missing file, a folder and an impossible name are each one clear line."""
    with pytest.raises(InputError, match="cannot be opened"):
        read(tmp_path / name)


def test_an_unknown_format_is_refused() -> None:
    """Two are known."""
    with pytest.raises(InputError, match="format xml is not known; it is jsonl or csv"):
        read(io.BytesIO(b""), "xml")


class Broken(io.RawIOBase):
    """A stream whose disk has died."""

    def readline(self, _: int | None = -1, /) -> bytes:
        raise OSError(5, "Input/output error")


def test_a_file_that_breaks_off_is_an_input_error() -> None:
    """An error while reading ends the import with one line, not with a traceback."""
    with pytest.raises(InputError, match=r"the file cannot be read: .*Input/output error"):
        next(read(cast("BinaryIO", Broken()), "jsonl"))


class Endless(io.RawIOBase):
    """A stream of as many equal lines as are asked for, none of them kept."""

    def __init__(self, line: bytes, lines: int) -> None:
        self._line, self._left = line, lines

    def readline(self, _: int | None = -1, /) -> bytes:
        self._left -= 1
        return self._line if self._left >= 0 else b""


def test_memory_does_not_grow_with_the_file() -> None:
    """Thirty megabytes are read in less than one."""
    stream = cast("BinaryIO", Endless(b'{"a":"' + b"x" * 30_000 + b'"}\n', 1_000))
    tracemalloc.start()
    try:
        assert sum(1 for _ in read(stream, "jsonl")) == 1_000
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


# --- rejected rows -------------------------------------------------------------------------------


def entries(path: Path) -> list[dict[str, Any]]:
    """What a file of rejected rows holds."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The name of an imported file."""
    return tmp_path / "rows.csv"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Where its rejected rows go."""
    return tmp_path / "rows.csv.rejected.jsonl"


def test_rejected_rows_are_set_aside(source: Path, target: Path) -> None:
    """Each has its line, its reason, its field, and the row or its text."""
    with RejectedFile(source) as rejects:
        assert not target.exists()
        rejects.write(3, Rejection("is missing", "account"), {"idempotency_key": "k"})
        rejects.write(7, Rejection("the line is not JSON", text="{not json"), None)
        rejects.write(8, Rejection("a reason"), None)
    assert rejects.path == str(target)
    assert entries(target) == [
        {"line": 3, "reason": "is missing", "field": "account", "row": {"idempotency_key": "k"}},
        {"line": 7, "reason": "the line is not JSON", "field": None, "text": "{not json"},
        {"line": 8, "reason": "a reason", "field": None},
    ]


def test_only_the_owner_may_read_them(source: Path, target: Path) -> None:
    """Rows hold addresses, also where an older file was open to all."""
    target.touch(mode=0o644)
    with RejectedFile(source) as rejects:
        rejects.write(1, Rejection("a reason"), {})
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_a_link_is_not_followed(source: Path, target: Path, tmp_path: Path) -> None:
    """Whatever stands in the file's place is replaced, and what it points to is left alone."""
    other = tmp_path / "other"
    other.write_text("precious")
    target.symlink_to(other)
    with RejectedFile(source) as rejects:
        rejects.write(1, Rejection("a reason"), {})
    assert other.read_text() == "precious"
    assert len(entries(target)) == 1


def test_a_run_without_rejections_removes_an_old_file(source: Path, target: Path) -> None:
    """What lies there is about the last run."""
    target.write_text("old")
    with RejectedFile(source):
        pass
    assert not target.exists()
    with RejectedFile(source):
        pass
    assert not target.exists()


def test_a_run_that_breaks_off_keeps_what_it_knows(source: Path, target: Path) -> None:
    """Without a rejection of its own it has not shown that the old file is out of date."""
    target.write_text("old")
    with pytest.raises(KeyError), RejectedFile(source):
        raise KeyError
    assert target.read_text() == "old"


def test_a_run_that_breaks_off_keeps_its_rejections(source: Path, target: Path) -> None:
    """They are in the file, whole, whatever ended the run."""
    rejects = RejectedFile(source)
    rejects.write(1, Rejection("a reason"), {})
    rejects.__exit__(KeyError, KeyError(), None)
    assert len(entries(target)) == 1


def test_standard_input_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rejected rows lie in the working folder."""
    monkeypatch.chdir(tmp_path)
    with RejectedFile("-") as rejects:
        rejects.write(1, Rejection("a reason"), {})
    assert len(entries(tmp_path / "stdin.rejected.jsonl")) == 1


def looped() -> dict[str, Any]:
    """An object that is its own part."""
    loop: dict[str, Any] = {}
    loop["a"] = loop
    return loop


def deep() -> dict[str, Any]:
    """An object far deeper than any parser goes."""
    found: dict[str, Any] = {}
    for _ in range(100_000):
        found = {"a": found}
    return found


@pytest.mark.parametrize(
    ("row", "kept"),
    [
        ({"a": "\ud800"}, {"row": {"a": "\ud800"}}),
        ({"a": 2**70}, {"row": {"a": 2**70}}),
        ({"a": object}, {"row": {"a": "<class 'object'>"}}),
        ({(1,): 1, "b": 2}, {"row": {"b": 2}}),
        (looped(), {"text": "the row cannot be written as JSON"}),
        (deep(), {"text": "the row cannot be written as JSON"}),
    ],
    ids=["surrogate", "big", "object", "key", "loop", "deep"],
)
def test_any_row_can_be_set_aside(source: Path, target: Path, row: Any, kept: dict[str, Any]) -> None:
    """The reason is written even if the row is one that JSON cannot hold."""
    with RejectedFile(source) as rejects:
        rejects.write(1, Rejection("a reason"), row)
    (entry,) = entries(target)
    assert entry["reason"] == "a reason"
    assert entry.items() >= kept.items()


@pytest.mark.parametrize("in_place", ["folder", "missing folder"])
def test_a_file_that_cannot_be_written(tmp_path: Path, in_place: str) -> None:
    """The import stops with one line that names the file."""
    source = tmp_path / "rows.csv" if in_place == "folder" else tmp_path / "none" / "rows.csv"
    if in_place == "folder":
        (tmp_path / "rows.csv.rejected.jsonl").mkdir()
    rejects = RejectedFile(source)
    with pytest.raises(InputError, match=r"rows\.csv\.rejected\.jsonl cannot be written: "):
        rejects.write(1, Rejection("a reason"), {})


def test_an_old_file_that_cannot_be_removed(source: Path, target: Path) -> None:
    """Neither does closing end in a traceback."""
    target.mkdir()
    with pytest.raises(InputError, match="cannot be written"), RejectedFile(source):
        pass
