"""Running workers: signals, the event loop, and several processes of the same kind."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import FrameType
from typing import Any, Final, TypeVar

import orjson

from duly.errors import DulyError
from duly.runtime.bootstrap import open_plant, worker_name
from duly.runtime.config import Config
from duly.runtime.telemetry import configure
from duly.runtime.worker import TALLY_WORDS, Worker

__all__ = ["run_on_loop", "run_worker", "run_workers", "stop_on_signals"]

T = TypeVar("T")
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
LEFT_AT_ONCE: Final = 130
DESCRIPTORS_MAX: Final = 65_536


def _raise_descriptors() -> None:
    """Each request has a socket. The soft limit is often lower than what the machine allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def run_worker(config: Config, *, idle_after: float | None, ticks: bool) -> dict[str, Any]:
    """Work in this process until stopped or idle; returns the tally and the seconds."""
    configure(debug=bool(os.environ.get("DULY_DEBUG")))
    started = time.monotonic()
    _raise_descriptors()
    tally = run_on_loop(_work(config, idle_after, ticks=ticks))
    return {**tally, "seconds": round(time.monotonic() - started, 3)}


def run_workers(processes: int, config_path: Path | None, idle_after: float | None) -> dict[str, Any]:
    """Work in `processes` processes; returns their tallies added up."""
    started = time.monotonic()
    command = [sys.executable, "-m", "duly", *(["--config", str(config_path)] if config_path else []), "work", "--json"]
    if idle_after is not None:
        command += ["--until-idle", "--patience", str(idle_after)]
    answers, failed = _finished(command, processes)
    if failed:
        raise DulyError(f"{failed} of {processes} workers failed; their own lines are above")
    tally: Counter[str] = Counter(dict.fromkeys(TALLY_WORDS, 0))
    for answer in answers:
        tally.update(orjson.loads(answer))
    return {**tally, "seconds": round(time.monotonic() - started, 3)}


def _finished(command: list[str], processes: int) -> tuple[list[bytes], int]:
    """What the children said, and how many of them failed. Signals are passed on to them meanwhile."""
    children: list[subprocess.Popen[bytes]] = []
    asked: list[int] = []

    def pass_on(number: int, _: FrameType | None) -> None:
        asked.append(number)
        _ask_to_leave(children)

    before = {number: signal.signal(number, pass_on) for number in SIGNALS}
    try:
        while len(children) < processes and not asked:
            # In sessions of their own: a Ctrl-C at the terminal reaches them once, from here.
            children.append(subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True))
        if asked:  # the last child was not on the list yet when the signal came
            _ask_to_leave(children[-1:])
        answers = [child.communicate()[0] for child in children]
    finally:
        for number, was in before.items():
            signal.signal(number, was)
    if len(asked) > 1:
        raise KeyboardInterrupt
    # Asked to leave before it could listen, a child has no tally, and has claimed nothing.
    allowed = {0, -signal.SIGTERM} if asked else {0}
    failed = sum(child.returncode not in allowed for child in children)
    return [answer for answer in answers if answer], failed


def _ask_to_leave(children: list[subprocess.Popen[bytes]]) -> None:
    """SIGTERM, also for Ctrl-C: Python, while it starts, would answer that with a traceback."""
    for child in children:
        if child.poll() is None:
            child.terminate()


async def _work(config: Config, idle_after: float | None, *, ticks: bool) -> dict[str, int]:
    async with open_plant(config) as plant:
        worker = Worker(plant, worker_name(), ticks=ticks)
        stop_on_signals(worker.stop)
        return await worker.run(idle_after=idle_after)


def stop_on_signals(drain: Callable[[], object]) -> None:
    """The first signal drains; the second leaves at once, which the ledger is made for."""
    loop = asyncio.get_running_loop()
    asked = False

    def stop() -> None:
        nonlocal asked
        if asked:
            os._exit(LEFT_AT_ONCE)
        asked = True
        drain()

    for number in SIGNALS:
        loop.add_signal_handler(number, stop)


def run_on_loop(main: Coroutine[Any, Any, T]) -> T:
    """On uvloop where it is installed: it is faster, and nothing needs it."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)
