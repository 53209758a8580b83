"""Programs under fire: some are kept running whatever ends them, others run once and leave a JSON document.

Only what was started here is ever signalled, and by its process id. What a program says on stderr is kept in
a file, and looked through in the end.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from soak.stub import Promises

__all__ = ["Failed", "Kept", "Once", "Place", "complaints", "stub"]

STOP_SECONDS_MAX: Final = 30.0
INTERRUPTS: Final = (signal.SIGINT, signal.SIGTERM)
#: Words that no program may say, whatever is done to it.
NEVER: Final = ("Traceback", "loop_failed")


class Failed(Exception):
    """The soak itself could not go on. The text is one line."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where programs run, what they find in their environment, and all that were started there."""

    folder: Path
    environment: Mapping[str, str]
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, name: str, command: Sequence[str], stdin: Path | None = None) -> subprocess.Popen[bytes]:
        """Start a program; its stdout is a new file, its stderr is appended to one."""
        with (
            (self.folder / f"{name}.out").open("wb") as out,
            (self.folder / f"{name}.err").open("ab") as err,
            Path(stdin or os.devnull).open("rb") as given,
            _uninterrupted(),
        ):
            environment = {**os.environ, **self.environment}
            program = subprocess.Popen(
                command, stdin=given, stdout=out, stderr=err, cwd=self.folder, env=environment, start_new_session=True
            )
            self.started.append(program)
        return program

    def kill(self) -> None:
        """End everything that still runs, as a power cut would."""
        for program in self.started:
            if program.poll() is None:
                program.kill()
                program.wait()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM wait for the end of the block: a program that is half started would be forgotten."""
    if threading.current_thread() is not threading.main_thread():  # nothing interrupts another one
        yield
        return
    asked: list[int] = []
    before = {number: signal.signal(number, lambda number, _: asked.append(number)) for number in INTERRUPTS}
    try:
        yield
    finally:
        for number, what in before.items():
            signal.signal(number, what)
    if asked:
        raise KeyboardInterrupt


class Kept:
    """A program that is started again whenever it has ended: a worker."""

    def __init__(self, place: Place, name: str, command: Sequence[str]) -> None:
        self._place, self._name, self._command = place, name, command
        self._running: subprocess.Popen[bytes] | None = None
        self.left_by_itself = 0

    @property
    def runs(self) -> bool:
        """Whether it has been started and has not ended."""
        return self._running is not None and self._running.poll() is None

    def step(self) -> None:
        """Start it if it does not run."""
        if self.runs:
            return
        self.left_by_itself += self._running is not None and self._running.returncode > 0
        self._running = self._place.start(self._name, self._command)

    def kill(self) -> bool:
        """End it as a power cut would. False if it did not run."""
        if self._running is None or self._running.poll() is not None:
            return False
        self._running.kill()
        self._running.wait()
        return True

    def signal(self, number: signal.Signals) -> bool:
        """Send it a signal and go on; if it leaves it is started again. False if it did not run."""
        if self._running is None or self._running.poll() is not None:
            return False
        self._running.send_signal(number)
        return True

    def stop(self) -> None:
        """Let it drain, and wait; a program that does not leave is killed. It is not started again."""
        if self._running is not None:
            _stop(self._running)
            self._running = None


class Once:
    """A program that runs to its end and prints one JSON document."""

    def __init__(self, place: Place, name: str, command: Sequence[str], stdin: Path | None = None) -> None:
        self._output = place.folder / f"{name}.out"
        self._running = place.start(name, command, stdin)

    @property
    def code(self) -> int | None:
        """How it ended: its exit code, or minus the signal that ended it; None while it runs."""
        return self._running.poll()

    def document(self) -> Any:
        """What it printed; None if that is no JSON."""
        try:
            return json.loads(self._output.read_bytes())
        except ValueError:
            return None

    def wait(self, seconds: float) -> int:
        """Wait for its end. Raises Failed if it takes longer."""
        try:
            return self._running.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failed(f"{self._output.stem} did not end within {seconds:g} s") from None

    def kill(self) -> bool:
        """End it as a power cut would. False if it had ended."""
        if self._running.poll() is not None:
            return False
        self._running.kill()
        self._running.wait()
        return True


def complaints(folder: Path) -> Iterator[tuple[str, str]]:
    """Each program that said what none may say, and the line."""
    for file in sorted(folder.glob("*.err")):
        with file.open(encoding="utf-8", errors="replace") as lines:
            yield from ((file.stem, line.strip()) for line in lines if any(word in line for word in NEVER))


class Receivers(NamedTuple):
    """The stub, running."""

    port: int
    pid: int

    def behave(self) -> None:
        """From now on every request is answered as promised, after a moment."""
        os.kill(self.pid, signal.SIGUSR1)


@contextmanager
def stub(journal: Path, seed: int, promises: Promises) -> Iterator[Receivers]:
    """The receivers, in a process of their own that nobody kills before the end."""
    command = [sys.executable, "-m", "soak.stub", "--journal", str(journal), "--seed", str(seed)]
    command += ["--timeout", str(promises.timeout), "--settling", str(promises.settling)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as program:
        try:
            yield Receivers(_port(program), program.pid)
        finally:
            _stop(program)


def _port(program: subprocess.Popen[bytes]) -> int:
    line = program.stdout.readline() if program.stdout else b""
    if not line:
        raise Failed("the receivers did not start")
    return int(json.loads(line)["port"])


def _stop(program: subprocess.Popen[bytes]) -> None:
    """Ask it to leave, wait, and end it if it does not."""
    program.terminate()
    program.send_signal(signal.SIGCONT)  # who stands still does not hear
    give_up = time.monotonic() + STOP_SECONDS_MAX
    while program.poll() is None and time.monotonic() < give_up:
        time.sleep(0.02)
    if program.poll() is None:
        program.kill()
        program.wait()
