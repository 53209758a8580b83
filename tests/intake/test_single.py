"""One reminder is read from the beginning of a file, however it is written, or refused in one line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.errors import InputError
from duly.intake import read_single
from tests.intake.samples import row


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file to write into."""
    return tmp_path / "reminder.json"


def refusal(file: Path, content: bytes) -> str:
    """The one line with which a file's content is refused."""
    file.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_single(str(file))
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(row()),
        json.dumps(row()) + "\n" + json.dumps(row(account="other")) + "\n",
        json.dumps(row()) + "\nnot JSON at all",
        json.dumps(row(), indent=2),
        "\n\n \n" + json.dumps(row(), indent="\t").replace("\n", "\r\n") + "\n\n",
        "\ufeff" + json.dumps(row(), indent=2),
    ],
)
def test_the_first_reminder_is_read(file: Path, content: str) -> None:
    """An object on one line or on several, and of several lines the first."""
    file.write_text(content, encoding="utf-8", newline="")
    assert read_single(str(file)) == row()


def test_a_long_file_is_not_read_whole(file: Path) -> None:
    """Of a file of many lines only the beginning counts."""
    file.write_text((json.dumps(row()) + "\n") * 20_000, encoding="utf-8")
    assert read_single(str(file)) == row()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "the file is empty; write one reminder into it"),
        (b" \n\n", "the file is empty"),
        (b'{"a": }\n{"b": 1}', "line 1: the line is not JSON: Expecting value at column 7"),
        (b'\n["a"]', "line 2: the line is JSON, and not an object"),
        (b"7", "line 1: the line is JSON, and not an object"),
        (b'{\n"a": 1,\n', "does not begin with a whole JSON object; `jq . FILE` says where"),
        (b"[\n{}\n]\n", "does not begin with a whole JSON object"),
        (b"\xff\xfe{\x00", "the file is UTF-16; save it as UTF-8"),
        (b'{"a": "\xff"}', "line 1: the line is not UTF-8"),
        (b"idempotency_key,account\nx,y\n", "does not begin with a whole JSON object"),
        (b'{"a": "' + b"x" * 2_000_000 + b'"}', "line 1: the line is longer than 1,048,576 bytes"),
        (b'{\n"a": "' + b"x" * 2_000_000 + b'"}', "does not begin with a whole JSON object"),
        (b"[" * 100_000, "line 1: the line is nested too deep"),
        (b"\0", "line 1: the line is not JSON"),
    ],
)
def test_what_is_no_reminder_is_told(file: Path, content: bytes, words: str) -> None:
    """The line says what the file is, or where it breaks off."""
    assert words in refusal(file, content)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    """So is a folder, and a name that no file has."""
    for name in (str(tmp_path / "none"), str(tmp_path), "a\0b"):
        with pytest.raises(InputError, match="cannot be opened"):
            read_single(name)


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="no file is there that opens and cannot be read")
def test_a_file_that_cannot_be_read_is_told() -> None:
    """A file that opens and then fails gives a line as well."""
    with pytest.raises(InputError, match=r"^the file cannot be read: "):
        read_single("/proc/self/mem")


def test_standard_input_is_read() -> None:
    """A dash is standard input; where it is closed, that is told."""
    program = [sys.executable, "-c", "from duly.intake import read_single; print(read_single('-')['account'])"]
    given = json.dumps(row(), indent=1)
    read = subprocess.run(program, input=given, capture_output=True, text=True, check=True, timeout=120)
    assert read.stdout == "harbour-lofts\n"
    closed = subprocess.run(
        ["sh", "-c", '"$@" <&-', "sh", *program], capture_output=True, text=True, check=False, timeout=120
    )
    assert closed.stderr.endswith("standard input is closed; pipe the rows in, or name a file\n")


@given(st.binary(max_size=200) | st.text(st.sampled_from('{}[]",:\n 1a')).map(str.encode))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    """Whatever a file holds gives an object or one line."""
    file = tmp_path_factory.getbasetemp() / "any.json"
    file.write_bytes(content)
    found: Any = None
    try:
        found = read_single(str(file))
    except InputError as refused:
        found = str(refused)
    assert isinstance(found, dict) or len(found.splitlines()) == 1
