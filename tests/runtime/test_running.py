"""Running: one worker in this process, or several of their own, and signals that reach them."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

import pytest

from duly.errors import DulyError
from duly.runtime.running import SIGNALS, run_worker, run_workers
from tests.runtime.installed import Installed

GOOD_TIME_SECONDS = 60.0


def signal_when(so: Callable[[], bool], number: signal.Signals) -> threading.Thread:
    """Send this process a signal once something is so."""

    def watch() -> None:
        ends = time.monotonic() + GOOD_TIME_SECONDS
        while not so() and time.monotonic() < ends:
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def handlers() -> list[object]:
    """Who hears the signals in this process."""
    return [signal.getsignal(number) for number in SIGNALS]


def test_one_process_ticks_and_works_until_idle(installed: Installed, capfd: pytest.CaptureFixture[str]) -> None:
    """What is due is found and sent; the tally comes with its seconds, and every line goes to stderr."""
    installed.schedule(3, ticked=False)
    done = run_worker(installed.config, idle_after=60.0, ticks=True)
    assert (done["claimed"], done["sent"]) == (3, 3)
    assert 0.0 < done["seconds"] < GOOD_TIME_SECONDS
    assert installed.receiver.requests == 3
    out, err = capfd.readouterr()
    assert out == ""
    assert [word in err for word in ("worker_started", "worker_stopped")] == [True, True]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_drains(installed: Installed, number: signal.Signals) -> None:
    """Requests under way are finished and recorded, and the rest is ready for others."""
    installed.schedule(40, "slow")
    watcher = signal_when(lambda: installed.receiver.requests >= 4, number)
    done = run_worker(installed.config, idle_after=None, ticks=False)
    watcher.join()
    assert 4 <= done["sent"] == installed.receiver.requests < 40
    assert installed.value("select count(*) from work where state = 'ready' and attempts = 0") == 40 - done["sent"]


def test_several_processes_share_the_work(installed: Installed) -> None:
    """Their tallies are added up, and each delivery was sent by one of them."""
    installed.schedule(30, "slow")
    before = handlers()
    done = run_workers(2, installed.path, 60.0)
    assert done["sent"] == installed.receiver.requests == len(set(installed.receiver.accepted)) == 30
    assert 0.0 < done["seconds"] < GOOD_TIME_SECONDS
    assert installed.value("select count(distinct worker) from attempt") == 2
    assert handlers() == before


def test_a_signal_reaches_every_process(installed: Installed) -> None:
    """All of them drain; what they had claimed and not begun is ready again."""
    installed.schedule(200, "slow")
    watcher = signal_when(lambda: installed.value("select count(distinct worker) from attempt") == 2, signal.SIGTERM)
    done = run_workers(2, installed.path, None)
    watcher.join()
    assert done["sent"] == installed.receiver.requests < 200
    assert installed.value("select count(*) from work where state = 'ready'") == 200 - done["sent"]


def test_a_process_that_fails_is_told(installed: Installed, capfd: pytest.CaptureFixture[str]) -> None:
    """The children's own lines say why; the sum of it is one line."""
    with pytest.raises(DulyError, match="2 of 2 workers failed"):
        run_workers(2, installed.folder / "nowhere.toml", 1.0)
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("nowhere.toml: no such file") == 2
