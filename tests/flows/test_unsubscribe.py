"""Following a link changes nothing, pressing the button does, and a wrong link tells nothing."""

from __future__ import annotations

import asyncio
import re
from typing import Final

import pytest

from duly.core.unsubscribe import token
from duly.errors import StoreUnavailable
from duly.flows.unsubscribe import Page, answer

SECRET: Final = b"a secret of thirty-two bytes ...."
CONTACT: Final = bytes(range(16))
OURS: Final = token(SECRET, CONTACT, "marketing")


class OptOuts:
    """Keeps who opted out of what."""

    def __init__(self, error: Exception | None = None) -> None:
        self.kept: list[tuple[bytes, str]] = []
        self.error = error

    async def __call__(self, contact: bytes, purpose: str) -> None:
        if self.error:
            raise self.error
        self.kept.append((contact, purpose))


def tags(page: str) -> list[tuple[str, dict[str, str]]]:
    """The tags of a page, with their attributes."""
    found = re.findall(r"<([a-z0-9]+)((?:\s[^>]*)?)>", page)
    return [(tag, dict(re.findall(r'([a-z-]+)="([^"]*)"', attributes))) for tag, attributes in found]


def asked(method: str, text: str = OURS, opt_outs: OptOuts | None = None) -> Page:
    """The answer to one request."""
    return asyncio.run(answer(method, text, [SECRET], opt_outs or OptOuts()))


def test_looking_changes_nothing() -> None:
    """A GET shows a form that posts to the same place, what mail programs post, and records nothing."""
    opt_outs = OptOuts()
    page = asked("GET", opt_outs=opt_outs)
    found = tags(page.html)
    assert page.status == 200
    assert ("form", {"method": "post"}) in found
    assert ("input", {"type": "hidden", "name": "List-Unsubscribe", "value": "One-Click"}) in found
    assert "marketing" in page.html
    assert opt_outs.kept == []


def test_posting_acts_and_may_be_repeated() -> None:
    """A POST opts the contact out of the purpose; the second one gets the same page."""
    opt_outs = OptOuts()
    pages = [asked("POST", opt_outs=opt_outs) for _ in range(2)]
    assert [page.status for page in pages] == [200, 200]
    assert pages[0] == pages[1]
    assert opt_outs.kept == [(CONTACT, "marketing")] * 2
    assert "form" not in [tag for tag, _ in tags(pages[0].html)]


@pytest.mark.parametrize("method", ["HEAD", "PUT", "DELETE", "OPTIONS", "post", "", "GET\r\n"])
@pytest.mark.parametrize("text", [OURS, "forged"])
def test_nothing_else_can_be_done(method: str, text: str) -> None:
    """Another method is not allowed, whatever the token."""
    opt_outs = OptOuts()
    assert asked(method, text, opt_outs).status == 405
    assert opt_outs.kept == []


def test_every_wrong_token_gets_the_same_page() -> None:
    """Forged, cut, of another secret, or no token at all: one page, and nothing is recorded."""
    opt_outs = OptOuts()
    wrong = ["", "forged", OURS[:-1], token(b"o" * 32, CONTACT, "marketing"), "<b>", "\0", "\ud800", "x" * 1_000_000]
    pages = {asked(method, text, opt_outs) for text in wrong for method in ("GET", "POST")}
    (page,) = pages
    assert page.status == 404
    assert opt_outs.kept == []


def test_a_purpose_is_text() -> None:
    """What stands in a purpose opens no tag and fills no place of the page."""
    shown = asked("GET", token(SECRET, CONTACT, "<script>{title}</script>")).html
    assert "script" not in [tag for tag, _ in tags(shown)]
    assert "&lt;script&gt;{title}" in shown


def test_what_is_not_recorded_is_not_promised() -> None:
    """A ledger that does not answer is the caller's to report."""
    with pytest.raises(StoreUnavailable):
        asked("POST", opt_outs=OptOuts(StoreUnavailable("away")))


@pytest.mark.parametrize("method", ["GET", "POST", "PUT"])
def test_pages_load_nothing_and_are_not_indexed(method: str) -> None:
    """No page asks another server for anything, and none wants to be found."""
    found = tags(asked(method).html)
    assert ("meta", {"name": "robots", "content": "noindex"}) in found
    assert not any({"src", "href", "action"} & set(attributes) for _, attributes in found)
