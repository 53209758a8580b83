r"""What a text costs as SMS, and where it is cut.

A message travels in 140 octets. In the GSM 7-bit alphabet these hold 160 characters, in UCS-2 70 units of
UTF-16. A longer text goes in several segments, each with a header of six octets that says which it is: 153
and 67 are left. One character outside the GSM alphabet puts the whole text into UCS-2.

Some characters take two units: in GSM those of the extension table, which an escape leads in, and in UCS-2
those beyond the first 65,536, a pair of surrogates. Neither is split over a boundary, because telephones
show rubbish there; the unit before it stays empty. A text is cut as late as that allows.

Sources: 3GPP TS 23.038, 6.2.1 (the two tables) and 6.2.3 (UCS-2); TS 23.040, 9.2.3.24.1 (segments, of which
there are at most 255). Long texts in UCS-2 are what every network takes as UTF-16.

https://www.3gpp.org/ftp/Specs/archive/23_series/23.038/
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Final, NamedTuple

__all__ = ["SEGMENTS_MAX", "Encoding", "Sms", "measure", "parts", "to_gsm"]

SEGMENTS_MAX: Final = 255

_BASIC: Final = frozenset(
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ"
    " !\"#¤%&'()*+,-./0123456789:;<=>?"
    "¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§"
    "¿abcdefghijklmnopqrstuvwxyzäöñüà"
)
_EXTENSION: Final = frozenset("\f^{}\\[~]|€")
_GSM: Final = _BASIC | _EXTENSION
_BEYOND_16_BITS: Final = 0x10000

#: What a typesetter's character becomes; blanks of every width become one that is on a telephone.
_PLAINER: Final = str.maketrans(
    dict.fromkeys("“”„‟«»", '"')
    | dict.fromkeys("‘’‚‛‹›′", "'")  # noqa: RUF001 - they look alike, which is the point
    | dict.fromkeys("‐‑‒–—―−", "-")  # noqa: RUF001 - they look alike, which is the point
    | dict.fromkeys("\u00a0\u2002\u2003\u2007\u2009\u200a\u202f", " ")
    | {"…": "..."}
)


class Encoding(StrEnum):
    """How the text travels."""

    GSM_7 = "gsm-7"
    UCS_2 = "ucs-2"


class Sms(NamedTuple):
    """What a text costs. `units` are septets or UTF-16 units, without the headers of segments."""

    encoding: Encoding
    segments: int
    units: int


class _Room(NamedTuple):
    """How many units a message holds that is alone, and one of several."""

    alone: int
    together: int


_ROOM: Final = {Encoding.GSM_7: _Room(160, 153), Encoding.UCS_2: _Room(70, 67)}


def measure(text: str) -> Sms:
    """Encoding, number of segments (an empty text is one) and units of a text."""
    encoding = _encoding(text)
    units = sum(_costs(text, encoding))
    return Sms(encoding, len(_cuts(text, encoding, units)) + 1, units)


def parts(text: str) -> list[str]:
    """What each segment carries, in order; together they are the text."""
    encoding = _encoding(text)
    cuts = _cuts(text, encoding, sum(_costs(text, encoding)))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def to_gsm(text: str) -> str:
    """The text with typographic quotes, dashes, blanks and ellipses as the GSM alphabet has them; the rest stays."""
    return text.translate(_PLAINER)


def _encoding(text: str) -> Encoding:
    return Encoding.GSM_7 if _GSM.issuperset(text) else Encoding.UCS_2


def _costs(text: str, encoding: Encoding) -> Iterator[int]:
    """The units of each character."""
    if encoding is Encoding.GSM_7:
        return (2 if character in _EXTENSION else 1 for character in text)
    return (2 if ord(character) >= _BEYOND_16_BITS else 1 for character in text)


def _cuts(text: str, encoding: Encoding, units: int) -> list[int]:
    """The places at which every segment but the first begins."""
    room = _ROOM[encoding]
    cuts: list[int] = []
    left = room.together
    if units <= room.alone:
        return cuts
    for place, cost in enumerate(_costs(text, encoding)):
        if cost > left:
            cuts.append(place)
            left = room.together
        left -= cost
    return cuts
