"""Derived identity: the same parts give the same id, and no other parts do."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.core import keys

PARTS = st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=4)


@given(PARTS, PARTS)
def test_ids_are_equal_only_for_equal_parts(one: list[str], other: list[str]) -> None:
    """Parts are prefixed by their length, so that moving a border moves the id."""
    assert (keys.derive(*one) == keys.derive(*other)) == (one == other)


@given(st.binary(min_size=16, max_size=16))
def test_a_shown_id_fits_every_provider_and_reads_back(identity: bytes) -> None:
    """26 characters of a-z and 2-7."""
    shown = keys.show(identity)
    assert re.fullmatch("[a-z2-7]{26}", shown)
    assert keys.parse(shown) == identity


@given(st.text())
def test_any_text_is_an_id_or_is_not(text: str) -> None:
    """Reading never raises."""
    found = keys.parse(text)
    assert found is None or len(found) == 16


@pytest.mark.parametrize("text", ["", "a" * 25, "a" * 27, "0" * 26, "\u00e4" * 26, "=" * 26, " " * 26])
def test_what_is_no_id_is_none(text: str) -> None:
    """Wrong lengths and other alphabets are told apart from ids."""
    assert keys.parse(text) is None


def test_the_kinds_of_ids_do_not_meet() -> None:
    """A recipient, a reminder, a contact and an endpoint of one name are four ids."""
    same = {
        keys.reminder_id("ns", "a", "x"),
        keys.recipient_id("ns", "a", "x"),
        keys.contact_id("ns", "a", "email", "x"),
        keys.endpoint_id("ns", "x"),
        keys.delivery_id("ns", "a", "x", "once", "email"),
    }
    assert len(same) == 5


def test_the_derivation_is_pinned() -> None:
    """A change of the derivation would send everything again: this value may never change."""
    assert keys.show(keys.delivery_id("ns", "harbour", "inspection-1", "once", "email")) == "gmh2vgpfnf5dyhntkhgjrxz734"
    assert keys.payload_hash(b"{}").hex().startswith("44136fa355b3678a")


def test_a_mailbox_is_the_same_in_any_case() -> None:
    """Of e-mail only: a URL's path may mean another one in another case."""
    ana, shouted = (keys.contact_id("ns", "a", "email", text) for text in ("ana@example.com", "ANA@example.com"))
    assert ana == shouted
    straight, sharp = (keys.contact_id("ns", "a", "email", f"{name}@example.com") for name in ("strasse", "straße"))
    assert straight != sharp
    lower, upper = (keys.contact_id("ns", "a", "webhook", f"https://a.example/{text}") for text in ("in", "IN"))
    assert lower != upper
