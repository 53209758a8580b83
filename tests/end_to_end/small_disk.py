"""A file system of its own that can be filled to the last byte, and emptied again."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

__all__ = ["SmallDisk", "small_disk"]

MEBIBYTE: Final = 1 << 20
CAP_SYS_ADMIN: Final = 21  # linux/capability.h: what mounting needs
MAY_NOT_MOUNT: Final = "no small disk here: mounting one needs root with CAP_SYS_ADMIN"


class SmallDisk:
    """A mounted folder, and what fills it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        """Leave no byte for anybody else."""
        descriptor = os.open(self._ballast, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            while True:
                os.write(descriptor, bytes(4096))
        except OSError:
            return
        finally:
            os.close(descriptor)

    def empty(self) -> None:
        """Take the ballast away."""
        self._ballast.unlink()


@contextmanager
def small_disk(mebibytes: int) -> Iterator[SmallDisk]:
    """Mount a disk in memory; skips where we may not, and fails where we may and it does not work."""
    if not _may_mount():
        pytest.skip(MAY_NOT_MOUNT)
    with tempfile.TemporaryDirectory(prefix="duly-disk-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={mebibytes * MEBIBYTE},mode=755", "duly-disk", name], check=True
        )
        try:
            yield SmallDisk(folder)
        finally:
            subprocess.run(["umount", "--lazy", name], check=True)


def _may_mount() -> bool:
    """Whether this process has the privilege, which root in a container often has not."""
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="utf-8").splitlines() if status.exists() else []
    granted = next((int(line.split()[1], 16) for line in lines if line.startswith("CapEff:")), 0)
    return bool(granted >> CAP_SYS_ADMIN & 1)
