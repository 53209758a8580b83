"""What a process has used, read from /proc (proc(5)): CPU seconds and its largest resident size."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any, Final

__all__ = ["busy_seconds", "cpu_seconds", "machine", "peak_bytes", "tree_cpu_seconds"]

TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
PARENT, OWN, WITH_REAPED = 1, slice(11, 13), slice(11, 15)  # of the fields after the name
IDLE: Final = (3, 4)  # of the times in /proc/stat: idle, and idle with input and output under way
TIMES: Final = 8  # those after it are counted in them already


def cpu_seconds(pid: int) -> float:
    """User and system time of a process that is still there, in seconds."""
    return _seconds(_fields(pid), OWN)


def tree_cpu_seconds(root: int) -> float:
    """The same of a process, the children that it has, and those that it has already waited for."""
    children = [fields for pid in _pids() if (fields := _fields(pid)) and int(fields[PARENT]) == root]
    return _seconds(_fields(root), WITH_REAPED) + sum(_seconds(fields, OWN) for fields in children)


def busy_seconds() -> float:
    """CPU time that all programs of the machine, and other guests on its host, have used since it started."""
    words = Path("/proc/stat").read_text("ascii").partition("\n")[0].split()[1 : TIMES + 1]
    return sum(int(word) for place, word in enumerate(words) if place not in IDLE) / TICKS_PER_SECOND


def peak_bytes(pid: int) -> int:
    """The largest resident size so far (VmHWM), 0 if the process is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text("ascii", "replace")
    except OSError:
        return 0
    lines = (line.split() for line in status.splitlines())
    return next((int(words[1]) * 1024 for words in lines if words[:1] == ["VmHWM:"]), 0)


def machine() -> dict[str, Any]:
    """Where the figures come from."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": _processor(),
        "memory_gib": round(memory / 2**30),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def _fields(pid: int) -> list[str]:
    """The fields after the name, which may itself hold blanks and brackets."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return []


def _seconds(fields: list[str], which: slice) -> float:
    return sum(map(int, fields[which])) / TICKS_PER_SECOND
