"""Signatures against published vectors, against the public library, and against hostile headers."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook

from duly.errors import ConfigError
from duly.providers.standard_webhooks import TOLERANCE_SECONDS, SigningKey, parse_secret, sign, verify

VECTORS: dict[str, list[dict[str, Any]]] = json.loads((Path(__file__).parent / "vectors.json").read_text())
OLD, NEW = ("whsec_" + base64.b64encode(letter * 32).decode() for letter in (b"o", b"n"))
FIELD = "providers.hooks.secret"


def key_of(secret: str) -> SigningKey:
    """The key behind a secret of any length."""
    return SigningKey(base64.b64decode(secret.removeprefix("whsec_") + "=="))


def headers_of(vector: dict[str, Any]) -> dict[str, str]:
    names = ("id", "timestamp", "signature")
    return {f"webhook-{name}": str(vector[name]) for name in names}


def named(vectors: list[dict[str, Any]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("vector", vectors, ids=lambda vector: vector["name"])


@named(VECTORS["signatures"])
def test_published_signatures(vector: dict[str, Any]) -> None:
    """We sign as the published vectors do."""
    signature = sign([key_of(vector["secret"])], vector["id"], vector["timestamp"], vector["body"].encode())
    assert signature == vector["signature"]


@named(VECTORS["verifications"])
def test_published_verifications(vector: dict[str, Any]) -> None:
    """We accept and refuse what the published vectors do."""
    keys = [parse_secret(vector["secret"], FIELD)]
    body = vector["body"].encode()
    assert verify(keys, headers_of(vector), body, now=vector["timestamp"]) is vector["valid"]


@given(
    st.binary(min_size=24, max_size=64),
    st.text("abcdefghijklmnopqrstuvwxyz234567", min_size=26, max_size=26),
    st.text(),
)
def test_the_public_library_agrees(key: bytes, message_id: str, text: str) -> None:
    """What we sign, the Standard Webhooks library signs the same."""
    secret = "whsec_" + base64.b64encode(key).decode()
    body = text.encode("utf-8", "replace").decode()
    theirs = Webhook(secret).sign(message_id, datetime(2026, 12, 1, 14, 0, tzinfo=UTC), body)
    assert sign([parse_secret(secret, FIELD)], message_id, 1_796_133_600, body.encode()) == theirs


def test_both_secrets_sign_while_they_rotate() -> None:
    """During a rotation receivers with the old and with the new secret both find their entry."""
    old, new = parse_secret(OLD, FIELD), parse_secret(NEW, FIELD)
    signature = sign([new, old], "id", 1000, b"body")
    headers = {"webhook-id": "id", "webhook-timestamp": "1000", "webhook-signature": signature}
    assert signature.count("v1,") == 2
    assert verify([old], headers, b"body", now=1000)
    assert verify([new], headers, b"body", now=1000)


@pytest.mark.parametrize(
    "change",
    [
        {"webhook-id": "other"},
        {"webhook-id": ""},
        {"webhook-timestamp": "1001"},
        {"webhook-timestamp": ""},
        {"webhook-timestamp": "1_000"},
        {"webhook-timestamp": "\N{ARABIC-INDIC DIGIT ONE}000"},
        {"webhook-timestamp": "9" * 5000},
        {"webhook-signature": ""},
        {"webhook-signature": "v1,"},
        {"webhook-signature": "\ud800"},
    ],
)
def test_a_changed_header_is_refused(change: dict[str, str]) -> None:
    """No header can be exchanged, emptied or filled with rubbish."""
    keys = [parse_secret(NEW, FIELD)]
    headers = {"webhook-id": "id", "webhook-timestamp": "1000", "webhook-signature": sign(keys, "id", 1000, b"body")}
    assert verify(keys, headers, b"body", now=1000)
    assert not verify(keys, headers | change, b"body", now=1000)


def test_a_changed_body_or_secret_is_refused() -> None:
    """The signature holds for one body and one secret."""
    keys = [parse_secret(NEW, FIELD)]
    headers = {"webhook-id": "id", "webhook-timestamp": "1000", "webhook-signature": sign(keys, "id", 1000, b"body")}
    assert not verify(keys, headers, b"Body", now=1000)
    assert not verify([parse_secret(OLD, FIELD)], headers, b"body", now=1000)
    assert not verify([], headers, b"body", now=1000)


def test_an_id_with_a_dot_is_refused() -> None:
    """A dot in the id would let it take over part of the timestamp, so even a right signature does not count."""
    keys = [parse_secret(NEW, FIELD)]
    signature = sign(keys, "id.2", 1000, b"body")
    headers = {"webhook-id": "id.2", "webhook-timestamp": "1000", "webhook-signature": signature}
    assert not verify(keys, headers, b"body", now=1000)


@pytest.mark.parametrize(("away", "valid"), [(0, True), (1, False)])
def test_the_tolerance_holds_both_ways(away: int, valid: bool) -> None:
    """A timestamp is good up to five minutes from the receiver's clock, on either side."""
    keys = [parse_secret(NEW, FIELD)]
    headers = {"webhook-id": "id", "webhook-timestamp": "5000", "webhook-signature": sign(keys, "id", 5000, b"")}
    for now in (5000 + TOLERANCE_SECONDS + away, 5000 - TOLERANCE_SECONDS - away):
        assert verify(keys, headers, b"", now=now) is valid


@given(st.dictionaries(st.sampled_from(["webhook-id", "webhook-timestamp", "webhook-signature"]), st.text()))
def test_hostile_headers_never_raise(headers: dict[str, str]) -> None:
    """Whatever stands in the headers is judged, and refused."""
    assert not verify([parse_secret(NEW, FIELD)], headers, b"body", now=0)


@pytest.mark.parametrize("size", [24, 32, 64])
def test_secrets_of_every_allowed_size(size: int) -> None:
    """24 to 64 bytes make a secret, padded, unpadded, and with a line end after it."""
    text = "whsec_" + base64.b64encode(b"x" * size).decode()
    expected = sign([SigningKey(b"x" * size)], "id", 1, b"")
    for written in (text, text.rstrip("="), text + "\n"):
        assert sign([parse_secret(written, FIELD)], "id", 1, b"") == expected


@pytest.mark.parametrize(
    ("secret", "reason"),
    [
        ("", "begins with whsec_"),
        ("bm90IGEgc2VjcmV0IGF0IGFsbCwgcmVhbGx5", "begins with whsec_"),
        ("whsk_bm90IGEgc2VjcmV0IGF0IGFsbCwgcmVhbGx5", "begins with whsec_"),
        ("whsec_bm90IGEgc2VjcmV0IGF0!IGFsbCwgcmVhbGx5", "not base64"),
        ("whsec_bm90IGEgc2VjcmV0IGF0IGFsbCwgcmVhbGx5A", "not base64"),
        ("whsec_bm90==IGEgc2VjcmV0IGF0IGFsbCwgcmVhbGx5", "not base64"),
        ("whsec_bm90IGEgc2VjcmV0IGF0é", "not base64"),
        ("whsec_", "24 to 64 bytes, this one 0"),
        ("whsec_" + base64.b64encode(b"x" * 23).decode(), "24 to 64 bytes, this one 23"),
        ("whsec_" + base64.b64encode(b"x" * 65).decode(), "24 to 64 bytes, this one 65"),
    ],
)
def test_a_bad_secret_is_named_and_not_shown(secret: str, reason: str) -> None:
    """The error is one line that names the field, says what to do, and never holds the secret."""
    with pytest.raises(ConfigError) as caught:
        parse_secret(secret, FIELD)
    text = str(caught.value)
    assert text.startswith(f"{FIELD}: ")
    assert reason in text
    assert "make one with" in text
    assert "\n" not in text
    assert not secret or secret == "whsec_" or secret.removeprefix("whsec_") not in text


def test_a_key_does_not_show_itself() -> None:
    """Neither `repr` nor `str` of a key shows any of it."""
    key = parse_secret(NEW, FIELD)
    assert f"{key!r} {key}" == "SigningKey(...) SigningKey(...)"
