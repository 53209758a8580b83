"""Unsubscribe: what is answered to whoever follows a link, and to mail programs that press its button.

A GET changes nothing, because scanners and previews follow every link of a mail: it shows a form. A POST acts,
without asking who sends it: the token is the proof (RFC 8058, 3.2). It may be repeated. Every token that is not
ours gets the same page, whatever is wrong with it. No page holds an address.

Source: https://www.rfc-editor.org/rfc/rfc8058
"""

from __future__ import annotations

import html
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from duly.core.unsubscribe import read_token

__all__ = ["OptOut", "Page", "answer"]

#: Records that a contact opts out of a purpose. Repeatable.
OptOut: TypeAlias = Callable[[bytes, str], Awaitable[None]]

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
_NOT_ALLOWED: Final = "<p>A page like this can be opened, or its button pressed. Nothing else can be done here.</p>"


class Page(NamedTuple):
    """An HTTP status and an HTML document."""

    status: int
    html: str


async def answer(method: str, token: str, secrets: Sequence[bytes], opt_out: OptOut) -> Page:
    """The page for a request to a link. What `opt_out` raises passes: then nothing is promised."""
    if method not in ("GET", "POST"):
        return _page(405, "Not possible", _NOT_ALLOWED)
    try:
        contact, purpose = read_token(secrets, token)
    except ValueError:
        return _page(404, "Unknown link", _UNKNOWN)
    if method == "GET":
        return _page(200, "Unsubscribe?", _FORM, purpose)
    await opt_out(contact, purpose)
    return _page(200, "Unsubscribed", _DONE, purpose)


def _page(status: int, title: str, content: str, purpose: str = "") -> Page:
    return Page(status, _PAGE.format(title=title, content=content.format(purpose=html.escape(purpose))))
