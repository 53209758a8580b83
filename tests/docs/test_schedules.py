"""The page about schedules: each of its commands prints what stands below it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "schedules.md"
BLOCKS = re.findall(r"```console\n\$ (.*?)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def test_the_page_has_examples() -> None:
    """So that the next test looks at something."""
    assert len(BLOCKS) >= 6


@pytest.mark.parametrize(("command", "printed"), BLOCKS, ids=range(len(BLOCKS)))
def test_an_example(command: str, printed: str, tmp_path: Path) -> None:
    """It needs no configuration and no database."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("DULY_")}
    script = command.replace("duly next", f"{sys.executable} -m duly next")
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == printed
