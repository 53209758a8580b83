"""What the page of templates says that a template shows is what it shows."""

from __future__ import annotations

import json
import re
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from duly.content import Template, TemplateSet
from duly.runtime.bootstrap import templates
from duly.runtime.config import parse
from tests.core.values import claimed

PAGE: Final = (Path(__file__).parents[2] / "docs/reference/templates.md").read_text(encoding="utf-8")
ROWS: Final = re.findall(r"^\| `(\{\{.*\}\})` \| (.*) \|$", PAGE, re.MULTILINE)
DATA: Final = json.loads(re.findall(r"`(\{\"visit_at\".*\})`", PAGE)[0])


@pytest.mark.parametrize(("template", "shows"), ROWS)
def test_a_row_of_the_table(template: str, shows: str) -> None:
    """For the recipient and the data of the page, the template gives the text beside it."""
    row = claimed(
        occurrence="-PT24H",
        due_at=datetime(2026, 12, 1, 14, tzinfo=UTC),
        recipient_zone="America/New_York",
        recipient_locale="en",
        data=DATA,
    )
    source = Template("note", "", template.replace(r"\|", "|"))
    assert TemplateSet({"note": source}).render(row).text == shows


def test_there_are_rows() -> None:
    """The search finds the table."""
    assert len(ROWS) == 11


def test_the_pages_template_is_one() -> None:
    """The example loads as a configuration, and compiles."""
    example = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[0]
    compiled = templates(parse(f'database = "sqlite:///duly.db"\n{example}', Path("duly.toml"), {}))
    assert compiled.source("visit").sms_segments_max == 2
    assert tomllib.loads(example)["templates"]["visit"]["subject"] == compiled.source("visit").subject
