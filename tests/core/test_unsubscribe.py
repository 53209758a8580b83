"""Tokens to unsubscribe: ours are read back, by any secret that may read them, and nothing else is."""

from __future__ import annotations

import base64
import hmac
import re
from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from duly.core import keys
from duly.core.model import Channel
from duly.core.unsubscribe import TOKEN_CHARACTERS_MAX, Links, read_token, token
from tests.core.values import claimed

SECRET: Final = b"a secret of thirty-two bytes ...."
OTHER: Final = b"another secret of as many bytes.."
CONTACT: Final = bytes(range(16))
OURS: Final = token(SECRET, CONTACT, "marketing")

purposes = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)


def refusal(secrets: list[bytes], text: str) -> str:
    """What is said of a token that is not ours."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - its words are compared
        read_token(secrets, text)
    return str(caught.value)


@given(st.binary(min_size=1, max_size=64), st.binary(max_size=32), purposes)
def test_a_token_is_read_back(secret: bytes, contact: bytes, purpose: str) -> None:
    """Contact and purpose come back, and the token may stand in a URL as it is."""
    made = token(secret, contact, purpose)
    assert re.fullmatch("[A-Za-z0-9_-]+", made)
    assert read_token([secret], made) == (contact, purpose)


def test_a_token_stays_what_it_is() -> None:
    """Tokens stand in mails that were sent: another spelling of the same one would break them all."""
    known = "ARAAAQIDBAUGBwgJCgsMDQ4PbWFya2V0aW5nvVWxBKbowRgTbi5hDJVMUxTwMHKsuF8Kqy_L9gn-j6k"
    assert token(SECRET, CONTACT, "marketing") == known


def test_secrets_rotate() -> None:
    """Any of several secrets reads a token, whatever their order."""
    for secrets in ([SECRET], [OTHER, SECRET], [SECRET, OTHER]):
        assert read_token(secrets, OURS) == (CONTACT, "marketing")


@given(st.integers(0, len(OURS) - 1), st.sampled_from("abcXYZ019_-"))
def test_a_changed_token_is_refused(place: int, character: str) -> None:
    """No character can be changed, not even the bits that base64 leaves over."""
    changed = OURS[:place] + character + OURS[place + 1 :]
    if changed != OURS:
        assert refusal([SECRET], changed) == "not a token of ours"


@given(st.text() | st.text(st.sampled_from("abAB01_-="), max_size=90))
@example("")
@example("A" * 79)
@example("A" * 10_000_000)
@example(OURS + "=")
@example(OURS + "\n")
@example(" " + OURS)
@example("é" * 79)
@example("\ud800" * 79)
@example("\0" * 79)
def test_anything_else_is_refused(text: str) -> None:
    """Whatever the text is, the same words refuse it."""
    assert refusal([SECRET], text) == "not a token of ours"


@pytest.mark.parametrize("secrets", [[], [OTHER], [SECRET[:-1]], [SECRET + b"\x01"]])
def test_only_our_secrets_read(secrets: list[bytes]) -> None:
    """Another secret, or none, reads nothing."""
    assert refusal(secrets, OURS) == "not a token of ours"


def test_another_version_is_refused() -> None:
    """A token of a version that is not known is not guessed at, though the secret signed it."""
    signed = bytes((2, len(CONTACT))) + CONTACT + b"marketing"
    raw = signed + hmac.digest(SECRET, b"duly unsubscribe\0" + signed, "sha256")
    assert refusal([SECRET], base64.urlsafe_b64encode(raw).decode().rstrip("=")) == "not a token of ours"


def test_parts_do_not_run_together() -> None:
    """A byte moved from the contact to the purpose makes another token."""
    assert token(SECRET, b"ab", "c") != token(SECRET, b"a", "bc")


@pytest.mark.parametrize(("contact", "purpose"), [(b"c" * 256, "x"), (CONTACT, "x" * 500)])
def test_a_token_has_a_longest(contact: bytes, purpose: str) -> None:
    """What would not fit into a header is refused when it is made."""
    with pytest.raises(ValueError, match=r"range\(0, 256\)|too long"):
        token(SECRET, contact, purpose)


def test_the_longest_purpose_fits() -> None:
    """A purpose of 50 characters of four bytes each has a token."""
    assert len(token(SECRET, CONTACT, "\U0001f642" * 50)) <= TOKEN_CHARACTERS_MAX


# --- links ---------------------------------------------------------------------------------------

LINKS: Final = Links("https://r.example.com/u", SECRET, frozenset({"marketing"}), "a-namespace")


def test_a_link_is_of_the_rows_contact() -> None:
    """The link's token names the contact by the id that the ledger has for it."""
    row = claimed(channel=Channel.EMAIL, address="ana@example.com", purpose="marketing")
    link = LINKS.of(row)
    assert link is not None
    start, _, shown = link.rpartition("/")
    assert start == "https://r.example.com/u"
    contact = keys.contact_id("a-namespace", "harbour", "email", "ana@example.com")
    assert read_token([SECRET], shown) == (contact, "marketing")
    assert LINKS.of(row._replace(attempts=3)) == link


def test_other_purposes_have_no_link() -> None:
    """What a person has to be told is not unsubscribed from."""
    assert LINKS.of(claimed(purpose="service")) is None
    assert LINKS.of(claimed()) is None


def test_a_secret_is_not_printed() -> None:
    """Whoever prints the links shows no secret."""
    assert "secret of" not in repr(LINKS)
