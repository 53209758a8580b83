"""Unsubscribe: what is answered to whoever follows a link, and to mail programs that press its button.

A GET changes nothing, because scanners and previews follow every link of a mail: it shows a form. A POST acts,
without asking who sends it: the token is the proof (RFC 8058, 3.2). It may be repeated. Every token that is not
ours gets the same page, whatever is wrong with it. No page holds an address. What a POST asks for is recorded as an
operator's `duly consent opt-out` is, or nothing is promised.

Source: https://www.rfc-editor.org/rfc/rfc8058
"""

from __future__ import annotations

import html
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from duly.core.consent import Kind, Said, Verdict
from duly.core.unsubscribe import read_token
from duly.errors import NotFound
from duly.ports import NewConsent, Store

__all__ = ["NOT_RECORDED", "SOURCE", "OptOut", "Page", "answer", "opt_out"]

#: Records that a contact opts out of a purpose. Repeatable. Raises NotFound where the ledger does not know the contact.
OptOut: TypeAlias = Callable[[bytes, str], Awaitable[object]]

#: Where such an opt-out comes from, and why it was recorded.
SOURCE: Final = "unsubscribe"
REASON: Final = "the link of a message was used"

_PAGE: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="robots" content="noindex">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
</head>
<body>
<main>
<h1>{title}</h1>
{content}
</main>
</body>
</html>
"""
_FORM: Final = """\
<p>Messages of this kind will no longer be sent to you: <b>{purpose}</b>.</p>
<form method="post">
<input type="hidden" name="List-Unsubscribe" value="One-Click">
<button>Unsubscribe</button>
</form>"""
_DONE: Final = "<p>Messages of this kind are no longer sent to you: <b>{purpose}</b>. You may close this page.</p>"
_UNKNOWN: Final = "<p>This link is not complete, or it is not ours. Open it again from the message.</p>"
_NOT_NOW: Final = "<p>This could not be recorded just now. Please try it again in a few minutes.</p>"


class Page(NamedTuple):
    """An HTTP status and an HTML document."""

    status: int
    html: str


async def answer(method: str, token: str, secrets: Sequence[bytes], opt_out: OptOut) -> Page:
    """The page for a request to a link; any method but POST only looks.

    What `opt_out` raises passes, but for NotFound: then nothing is promised, and NOT_RECORDED says so.
    """
    try:
        contact, purpose = read_token(secrets, token)
    except ValueError:
        return _UNKNOWN_LINK
    if method != "POST":
        return _page(200, "Unsubscribe?", _FORM, purpose)
    try:
        await opt_out(contact, purpose)
    except NotFound:
        return _UNKNOWN_LINK
    return _page(200, "Unsubscribed", _DONE, purpose)


async def opt_out(store: Store, actor: str, contact: bytes, purpose: str) -> bool:
    """Record that a contact opts out of a purpose; False: it says nothing new. Raises NotFound."""
    account, known = await store.contact(contact)
    said = Said(Kind.OPT_OUT, purpose, None, SOURCE, REASON)
    (verdict,) = await store.record_consent(actor, account, [NewConsent(known, said)])
    return verdict is Verdict.RECORDED


def _page(status: int, title: str, content: str, purpose: str = "") -> Page:
    return Page(status, _PAGE.format(title=title, content=content.format(purpose=html.escape(purpose))))


_UNKNOWN_LINK: Final = _page(404, "Unknown link", _UNKNOWN)

#: For a wish that the ledger has not heard: whoever had it is told to try again.
NOT_RECORDED: Final = _page(503, "Not now", _NOT_NOW)
