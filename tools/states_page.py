"""Write docs/reference/states.md from the table of transitions.

The table in `duly.core.states` is the contract, so the page is drawn from it and never by hand; a test
fails when the page is stale. The diagram leaves acceptance evidence out, which leads from nearly every
state to sent and would hide the rest; the table below it has every row.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from duly.core.states import FINAL, OPEN, TRANSITIONS, State

PAGE: Final = Path(__file__).parents[1] / "docs" / "reference" / "states.md"
EVIDENCE: Final = "evidence"

HEAD: Final = """\
# States of a delivery

This page is written by `make docs` from the table of transitions in `src/duly/core/states.py`. A move
that is not in the table raises.

A delivery is *open* while somebody has to move it on, and *final* after that. Only acceptance evidence or a
recorded decision leaves a final state. The words are explained in the [glossary](glossary.md).
"""

DIAGRAM_NOTE: Final = """\
Each arrow carries the name of what moves the delivery on. Arrows of acceptance evidence are left out: it
moves every state but `sent` to `sent`. Nothing in this version moves a delivery to `shadowed`: that arrow is the
contract for what is to come. A redrive is a call of the store here, and no command yet.
"""


def render() -> str:
    """The whole page, as Markdown."""
    return f"{HEAD}\n{_kinds()}\n## Diagram\n\n{DIAGRAM_NOTE}\n{_diagram()}\n## Every move\n\n{_table()}"


def _kinds() -> str:
    return f"- Open: {_names(OPEN)}\n- Final: {_names(FINAL)}\n"


def _names(states: frozenset[State]) -> str:
    return ", ".join(f"`{state}`" for state in State if state in states)


def _moves() -> list[tuple[State | None, State, str]]:
    return [(origin, target, who) for origin, row in TRANSITIONS.items() for target, who in row.items()]


def _diagram() -> str:
    arrows = [f"    {origin or '[*]'} --> {target}: {who}" for origin, target, who in _moves() if who != EVIDENCE]
    return "\n".join(["```mermaid", "stateDiagram-v2", *arrows, "```", ""])


def _table() -> str:
    rows = [f"| {origin or '(new)'} | {target} | {who} |" for origin, target, who in _moves()]
    return "\n".join(["| from | to | moved on by |", "|---|---|---|", *rows, ""])


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
