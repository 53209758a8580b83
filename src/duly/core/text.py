r"""Text that everything can record, send and show.

Two kinds of characters have no place anywhere: NUL, which PostgreSQL refuses in text and jsonb
(https://www.postgresql.org/docs/current/datatype-json.html), and lone surrogates, which no UTF-8 can
carry (RFC 3629, section 3). They come from JSON escapes (`\u0000`, `\ud800`) and from files. Names of
things (keys, accounts, ids) that hold them are refused; from prose they are taken out.

Control characters are more than that: in a header or a log line a line break lets a value pretend to be
the next line. `one_line` is for what must stand on one.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["has_controls", "is_recordable", "one_line", "recordable"]

_UNRECORDABLE: Final = re.compile("[\x00\ud800-\udfff]")
#: C0, DEL, C1 and the two separators of Unicode that break lines.
_CONTROLS: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def is_recordable(text: str) -> bool:
    """Whether a database can keep the text, and UTF-8 carry it."""
    return _UNRECORDABLE.search(text) is None


def recordable(text: str) -> str:
    """The text without NUL and lone surrogates."""
    return _UNRECORDABLE.sub("", text)


def has_controls(text: str) -> bool:
    """Whether the text holds a control character or a line break."""
    return _CONTROLS.search(text) is not None


def one_line(text: str, characters_max: int) -> str:
    """The text on one line: each run of control characters is one space, the ends are bare, the rest is cut off."""
    return _CONTROLS.sub(" ", recordable(text)).strip()[:characters_max].rstrip()
