"""SMS: what a text costs, and that no segment is too long or breaks a character."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from duly.core.sms import Encoding, Sms, measure, parts, to_gsm

#: TS 23.038, 6.2.1, row by row, typed a second time: what the tests believe.
GSM: Final = (
    "@\u00a3$\u00a5\u00e8\u00e9\u00f9\u00ec\u00f2\u00c7\n\u00d8\u00f8\r\u00c5\u00e5"
    "\u0394_\u03a6\u0393\u039b\u03a9\u03a0\u03a8\u03a3\u0398\u039e\u00c6\u00e6\u00df\u00c9"
    " !\"#\u00a4%&'()*+,-./0123456789:;<=>?\u00a1ABCDEFGHIJKLMNOPQRSTUVWXYZ\u00c4\u00d6\u00d1\u00dc\u00a7"
    "\u00bfabcdefghijklmnopqrstuvwxyz\u00e4\u00f6\u00f1\u00fc\u00e0"
)
ESCAPED: Final = "\f^{}\\[~]|\u20ac"

gsm_texts = st.text(st.sampled_from(GSM[:8] + ESCAPED), max_size=700)
wide_texts = st.text(st.sampled_from("a\u4e16\U0001f642\U0001f9d1"), max_size=300)
texts = st.one_of(gsm_texts, wide_texts, st.text(max_size=400))


def septets(text: str) -> bytes | None:
    """The text in GSM codes, one octet for each septet, or None: an encoder that knows nothing of costs."""
    codes = bytearray()
    for character in text:
        if character in ESCAPED:
            codes += b"\x1b" + bytes([ESCAPED.index(character)])
        elif character in GSM:
            codes.append(GSM.index(character))
        else:
            return None
    return bytes(codes)


def sized(text: str) -> tuple[str, int]:
    """Encoding and units, by encoding."""
    codes = septets(text)
    return ("ucs-2", len(text.encode("utf-16-be")) // 2) if codes is None else ("gsm-7", len(codes))


def counted(text: str) -> Sms:
    """What `measure` must say: segments are filled from the left, character by character, as a telephone does."""
    encoding, units = sized(text)
    alone, together = (160, 153) if encoding == "gsm-7" else (70, 67)
    if units <= alone:
        return Sms(Encoding(encoding), 1, units)
    segments = [""]
    for character in text:
        in_this = segments[-1] + character
        size = len(septets(in_this) or b"") if encoding == "gsm-7" else len(in_this.encode("utf-16-be")) // 2
        if size > together:
            segments.append(character)
        else:
            segments[-1] = in_this
    return Sms(Encoding(encoding), len(segments), units)


@given(texts)
@example("")
@example("a" * 160)
@example("a" * 161)
@example("\u20ac" * 80)
@example("a" * 152 + "\u20ac" + "a" * 10)
@example("\U0001f642" * 35)
@example("\U0001f642" * 36)
def test_counts_agree_with_an_encoder(text: str) -> None:
    """Encoding, segments and units are those of an oracle that encodes the text and fills segments by hand."""
    assert measure(text) == counted(text)


@given(texts)
def test_parts_carry_the_text(text: str) -> None:
    """The parts join to the text, there is one for each segment, and none is empty unless the text is."""
    pieces = parts(text)
    assert "".join(pieces) == text
    assert len(pieces) == measure(text).segments
    assert all(pieces) or pieces == [""]


@given(texts)
def test_no_part_is_too_long(text: str) -> None:
    """One part alone holds 160 or 70 units, one of several 153 or 67; and each could not have held one more."""
    pieces = parts(text)
    wide = septets(text) is None
    most = (70 if wide else 160) if len(pieces) == 1 else (67 if wide else 153)
    sizes = [len(piece.encode("utf-16-be")) // 2 if wide else len(septets(piece) or b"") for piece in pieces]
    assert max(sizes) <= most
    assert all(size >= most - 1 for size in sizes[:-1])


@given(wide_texts.filter(lambda text: len(text) > 70))
def test_no_pair_is_split(text: str) -> None:
    """Each part is whole UTF-16 by itself: no half of a pair is left over."""
    assert [piece.encode("utf-16-be").decode("utf-16-be") for piece in parts(text)] == parts(text)


@pytest.mark.parametrize("character", ESCAPED)
def test_an_escape_moves_on_whole(character: str) -> None:
    """A character of two septets that would lie across the boundary begins the next segment."""
    text = "a" * 152 + character + "b" * 20
    assert parts(text) == ["a" * 152, character + "b" * 20]
    assert measure(text) == (Encoding.GSM_7, 2, 174)


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("", ("gsm-7", 1, 0)),
        ("a" * 160, ("gsm-7", 1, 160)),
        ("a" * 161, ("gsm-7", 2, 161)),
        ("a" * 306, ("gsm-7", 2, 306)),
        ("a" * 307, ("gsm-7", 3, 307)),
        ("\u4e16" * 70, ("ucs-2", 1, 70)),
        ("\u4e16" * 71, ("ucs-2", 2, 71)),
        ("\U0001f642" * 35, ("ucs-2", 1, 70)),
        ("\U0001f642" * 67, ("ucs-2", 3, 134)),
        ("a" * 159 + "\u20ac", ("gsm-7", 2, 161)),
        ("a" * 70 + "\u2019", ("ucs-2", 2, 71)),
        ("\u00e7", ("ucs-2", 1, 1)),
        ("\u00c7", ("gsm-7", 1, 1)),
        ("\x1b", ("ucs-2", 1, 1)),
        ("`", ("ucs-2", 1, 1)),
        ("\t", ("ucs-2", 1, 1)),
        ("\ud800", ("ucs-2", 1, 1)),
    ],
)
def test_known_costs(text: str, cost: tuple[str, int, int]) -> None:
    """Texts at the boundaries cost what the specification says."""
    assert measure(text) == cost


def test_typographers_characters_become_plain() -> None:
    """Quotes, dashes, blanks and ellipses are replaced; letters are not, whatever it costs."""
    typeset = "\u201cOpen\u201d \u2013 \u2018soon\u2019\u00a0\u2026 9:00\u202fAM \u4e16"
    assert to_gsm(typeset) == "\"Open\" - 'soon' ... 9:00 AM \u4e16"
    assert measure(to_gsm(typeset[:-2])).encoding is Encoding.GSM_7


@given(st.text(st.sampled_from(GSM + ESCAPED)))
def test_what_is_plain_stays(text: str) -> None:
    """A text in the GSM alphabet is not touched."""
    assert to_gsm(text) == text
