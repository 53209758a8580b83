"""Following a link changes nothing, pressing the button does, and a wrong link tells nothing."""

from __future__ import annotations

import asyncio
import re
from typing import Final

import pytest

from duly.core.model import Channel
from duly.core.unsubscribe import token
from duly.errors import NotFound, StoreUnavailable
from duly.flows.unsubscribe import NOT_RECORDED, SOURCE, Page, answer, opt_out
from duly.testing.builders import contact
from duly.testing.driving import drive
from tests.flows.scene import Scene

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


@pytest.mark.parametrize("method", ["HEAD", "PUT", "DELETE", "OPTIONS", "post", "", "POST\r\n"])
def test_only_a_post_acts(method: str) -> None:
    """Whatever is no POST looks, as a GET does."""
    opt_outs = OptOuts()
    assert asked(method, OURS, opt_outs) == asked("GET")
    assert opt_outs.kept == []


def test_every_wrong_token_gets_the_same_page() -> None:
    """Forged, cut, of another secret, or no token at all: one page, and nothing is recorded."""
    opt_outs = OptOuts()
    wrong = ["", "forged", OURS[:-1], token(b"o" * 32, CONTACT, "marketing"), "<b>", "\0", "\ud800", "x" * 1_000_000]
    pages = {asked(method, text, opt_outs) for text in wrong for method in ("GET", "POST")}
    (page,) = pages
    assert page.status == 404
    assert opt_outs.kept == []
    assert page == asked("POST", opt_outs=OptOuts(NotFound("nobody")))  # ours, of a contact that is not there


def test_a_purpose_is_text() -> None:
    """What stands in a purpose opens no tag and fills no place of the page."""
    shown = asked("GET", token(SECRET, CONTACT, "<script>{title}</script>")).html
    assert "script" not in [tag for tag, _ in tags(shown)]
    assert "&lt;script&gt;{title}" in shown


def test_what_is_not_recorded_is_not_promised() -> None:
    """A ledger that does not answer is the caller's to report."""
    with pytest.raises(StoreUnavailable):
        asked("POST", opt_outs=OptOuts(StoreUnavailable("away")))


def test_who_is_not_heard_is_asked_to_try_again() -> None:
    """The page for that says neither that it is done nor that it will be."""
    assert NOT_RECORDED.status == 503
    assert "try it again" in NOT_RECORDED.html
    assert "no longer" not in NOT_RECORDED.html


def test_an_opt_out_is_recorded_as_an_operators_is(scene: Scene) -> None:
    """It stands for its purpose alone, with its source and who recorded it; said again it says nothing new."""
    address = contact("acme", Channel.WEBHOOK, "https://hooks.example.com/in")
    scene.schedule("r", url=address.address)
    assert [drive(opt_out(scene.store, "serve@here", address.id, "marketing")) for _ in range(2)] == [True, False]
    told = drive(scene.store.views().consent(address.id))
    (entry,) = told["standing"]
    assert (entry["kind"], entry["purpose"], entry["code"]) == ("opt_out", "marketing", "opted_out_of_marketing")
    assert (entry["source"], entry["actor"]) == (SOURCE, "serve@here")
    assert len(told["history"]) == 1


def test_an_opt_out_of_nobody_is_refused(scene: Scene) -> None:
    """A contact that the ledger does not know cannot be made from its id."""
    with pytest.raises(NotFound):
        drive(opt_out(scene.store, "serve@here", CONTACT, "marketing"))


@pytest.mark.parametrize("page", [asked("GET"), asked("POST"), asked("GET", "forged"), NOT_RECORDED])
def test_pages_load_nothing_and_are_not_indexed(page: Page) -> None:
    """No page asks another server for anything, and none wants to be found."""
    found = tags(page.html)
    assert ("meta", {"name": "robots", "content": "noindex"}) in found
    assert not any({"src", "href", "action"} & set(attributes) for _, attributes in found)
