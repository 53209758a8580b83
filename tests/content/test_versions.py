"""A row is rendered by the version that it is pinned to, and goes by SMS only if its text is short enough."""

from __future__ import annotations

from typing import Any, Final

import pytest

from duly.content import Template, TemplateSet
from duly.content.templates import EARLIER_VERSIONS_CACHED_MAX, _earlier_version
from duly.core.model import Channel, Claimed
from duly.errors import Unrenderable, VersionUnknown
from tests.core.values import claimed

NEW: Final = Template("note", "new", "New {{ data.x }}", sms_segments_max=1)
OLD: Final = Template("note", "old", "Old {{ data.x }}")
BROKEN: Final = Template("note", "", "{% nonsense %}")
GONE: Final = Template("gone", "", "Gone {{ data.x }}")
SET: Final = TemplateSet({"note": NEW}).with_versions([OLD, BROKEN, GONE])


def pinned(version: str | None, **changes: Any) -> Claimed:
    """A claimed row that is pinned to a version."""
    return claimed(**{"data": {"x": "flat"}, "template_version": version, **changes})


@pytest.mark.parametrize(
    ("version", "text"), [(OLD.version, "Old flat"), (NEW.version, "New flat"), (None, "New flat")]
)
def test_a_pinned_row_is_rendered_by_its_version(version: str | None, text: str) -> None:
    """An earlier version renders the rows that were promised by it."""
    content = SET.render(pinned(version))
    assert content.text == text
    assert content.version == (OLD if text.startswith("Old") else NEW).version


def test_a_row_without_a_version_is_rendered_by_the_current_one() -> None:
    """Rows that say nothing of a version are as before."""
    assert SET.render(claimed(data={"x": "flat"})).text == "New flat"


@pytest.mark.parametrize(("name", "version"), [("note", "0123456789ab"), ("note", ""), ("gone", NEW.version)])
def test_a_version_that_is_not_at_hand_renders_nothing(name: str, version: str) -> None:
    """A row is never rendered by another version than its own, and the complaint names both."""
    assert not SET.knows(name, version)
    with pytest.raises(VersionUnknown, match=f"^template {name}: its version {version} is not at hand$"):
        SET.render(pinned(version, template=name))


def test_what_a_set_knows() -> None:
    """It knows the current version of each template, and those that were added."""
    assert SET.version("note") == NEW.version
    assert all(SET.knows(one.name, one.version) for one in (NEW, OLD, BROKEN, GONE))


def test_a_version_outlives_its_template() -> None:
    """A template that is configured no more still renders what was pinned to it, and is not offered to new rows."""
    assert SET.render(pinned(GONE.version, template="gone")).text == "Gone flat"
    assert "gone" not in SET
    assert list(SET) == ["note"]


def test_a_version_that_cannot_be_read_any_more_is_a_reason() -> None:
    """An earlier version is compiled when a row asks for it; what is wrong with it is that row's reason."""
    with pytest.raises(Unrenderable, match=rf"^template note, text, line 1: .* \(in its version {BROKEN.version}\)$"):
        SET.render(pinned(BROKEN.version))


def test_versions_add_up() -> None:
    """A set with more versions leaves the one that it came from as it was."""
    plain = TemplateSet({"note": NEW})
    more = plain.with_versions([OLD]).with_versions([GONE])
    assert not plain.knows("note", OLD.version)
    assert more.render(pinned(OLD.version)).text == "Old flat"
    assert more.render(pinned(GONE.version, template="gone")).text == "Gone flat"


def test_the_compiled_ones_are_bounded() -> None:
    """However many versions there were, so many at most are kept compiled."""
    assert _earlier_version.cache_info().maxsize == EARLIER_VERSIONS_CACHED_MAX == 1_000


def test_a_set_gives_its_sources() -> None:
    """The current source of a name can be had, so that it can be kept."""
    assert SET.source("note") is NEW
    with pytest.raises(KeyError):
        SET.source("gone")


# --- SMS -----------------------------------------------------------------------------------------


def by_sms(template: Template, text: str) -> str:
    """What goes by SMS."""
    row = claimed(channel=Channel.SMS, address="+14155550100", data={"x": text})
    return TemplateSet({"note": template}).render(row).text


def test_a_text_may_not_take_too_many_segments() -> None:
    """Over its template's bound a text is not sent by SMS, and the reason says by how much and what to do."""
    short = Template("note", "", "{{ data.x }}", sms_segments_max=2)
    assert len(by_sms(short, "x" * 306)) == 306
    with pytest.raises(Unrenderable) as caught:
        by_sms(short, "x" * 307)
    assert str(caught.value) == (
        "template note, text: it takes 3 SMS segments, over the 2 allowed; shorten it, or raise sms_segments_max"
    )


def test_ten_segments_are_the_default() -> None:
    """Without a bound of its own a template may take ten."""
    template = Template("note", "", "{{ data.x }}")
    assert len(by_sms(template, "x" * 1_530)) == 1_530
    with pytest.raises(Unrenderable, match="it takes 11 SMS segments, over the 10 allowed"):
        by_sms(template, "x" * 1_531)


def test_other_channels_have_no_segments() -> None:
    """The bound is for SMS alone."""
    template = Template("note", "", "{{ data.x }}", sms_segments_max=1)
    assert len(TemplateSet({"note": template}).render(claimed(data={"x": "x" * 5_000})).text) == 5_000


def test_typographers_characters_become_plain_if_the_template_says_so() -> None:
    """The text is changed only where its template asks for it."""
    assert by_sms(Template("note", "", "{{ data.x }}"), "\u201chi\u201d") == "\u201chi\u201d"
    assert by_sms(Template("note", "", "{{ data.x }}", sms_to_gsm=True), "\u201chi\u201d") == '"hi"'


def test_an_earlier_version_costs_what_the_current_one_allows() -> None:
    """What a text may cost is no part of a version: the operator's word of today holds."""
    with pytest.raises(Unrenderable, match="it takes 2 SMS segments, over the 1 allowed"):
        SET.render(pinned(OLD.version, channel=Channel.SMS, data={"x": "x" * 160}))
