"""Write docs/reference/providers.md from what the providers declare; see `duly.providers.table`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from duly.providers.table import page

PAGE: Final = Path(__file__).parents[1] / "docs" / "reference" / "providers.md"


def render() -> str:
    """The whole page, as Markdown."""
    return page()


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
