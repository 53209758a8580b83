"""Programs that are measured: started as anybody would start them, watched, and ended in time."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any, Final

from bench.readings import cpu_seconds, peak_bytes

__all__ = ["DULY", "Failed", "Ran", "Stub", "reserved_port", "run", "stub"]

DULY: Final = (sys.executable, "-m", "duly")
LOOK_SECONDS: Final = 0.02
RUN_SECONDS_MAX: Final = 120.0
COMPLAINT_CHARACTERS_MAX: Final = 500


class Failed(Exception):
    """A figure could not be had, or would have been wrong. The text is one line."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A program that has ended well: its own JSON, and what it used. Start-up counts."""

    document: dict[str, Any]
    wall_seconds: float
    cpu_seconds: float
    peak_bytes: int


def run(command: Sequence[str], environment: Mapping[str, str], *, terminate_after: float | None = None) -> Ran:
    """Run a program that prints one JSON document. `terminate_after` seconds it is asked to end.

    Raises Failed where it does not end, or does not end well.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as complaints:
        started = time.monotonic()
        program = subprocess.Popen(command, stdout=output, stderr=complaints, env={**os.environ, **environment})
        try:
            cpu, peak = _watch(program, terminate_after)
        finally:
            _end(program)
        wall = time.monotonic() - started
        if program.returncode:
            raise Failed(f"{' '.join(command[1:4])}: exit code {program.returncode}: {_last_words(complaints)}")
        output.seek(0)
        return Ran(json.loads(output.read()), wall, cpu, peak)


def _watch(program: subprocess.Popen[bytes], terminate_after: float | None) -> tuple[float, int]:
    """Wait for the end; returns its CPU seconds and its largest resident size in bytes."""
    started, peak, asked = time.monotonic(), 0, False
    while time.monotonic() - started < RUN_SECONDS_MAX:
        pid, status, usage = os.wait4(program.pid, os.WNOHANG)
        if pid:
            program.returncode = os.waitstatus_to_exitcode(status)
            return usage.ru_utime + usage.ru_stime, peak
        peak = peak_bytes(program.pid) or peak
        if terminate_after is not None and not asked and time.monotonic() - started > terminate_after:
            program.terminate()
            asked = True
        time.sleep(LOOK_SECONDS)
    raise Failed(f"a program did not end within {RUN_SECONDS_MAX:.0f} s: {program.args!r}")


def _end(program: subprocess.Popen[Any]) -> None:
    if program.poll() is None:
        program.kill()
        program.wait()


def _last_words(complaints: IO[bytes]) -> str:
    complaints.seek(0)
    lines = complaints.read().decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:COMPLAINT_CHARACTERS_MAX] if lines else "it said nothing"


@dataclass(slots=True)
class Stub:
    """The receiving stub, in a process of its own."""

    program: subprocess.Popen[bytes]
    port: int

    def cpu_seconds(self) -> float:
        """What it has used so far."""
        return cpu_seconds(self.program.pid)

    def counts(self) -> dict[str, int]:
        """What it has counted."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=5) as answer:
            counted: dict[str, int] = json.load(answer)
        return counted


@contextmanager
def reserved_port() -> Iterator[int]:
    """A port for stubs that come and go. It is bound here, not listened on, so that nobody else is given it."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield int(holder.getsockname()[1])


@contextmanager
def stub(port: int = 0) -> Iterator[Stub]:
    """A fresh stub on a port (0: any)."""
    command = [sys.executable, "-m", "duly.testing.receiver", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None, "it was asked for"
        try:
            yield Stub(program, json.loads(program.stdout.readline())["port"])
        finally:
            program.terminate()
