"""Consent: what a statement changes, what silences what, over everything that can be said."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.core.consent import (
    ALL,
    EVERYTHING,
    KNOWN_PURPOSES,
    SECURITY,
    SUPPRESSIONS,
    Kind,
    Known,
    Said,
    Verdict,
    code_of,
    entries_of,
    hard_stop,
    hear,
    objection,
    scope_of,
    silences_some,
)
from duly.core.explain import REASONS

T1 = datetime(2026, 1, 1, tzinfo=UTC)
T2, T3 = T1 + timedelta(days=1), T1 + timedelta(days=2)
MARKETING = "marketing"
SCOPES = (*KNOWN_PURPOSES, ALL, EVERYTHING, "the weekly plan")
CHOICES = (Kind.OPT_OUT, Kind.OPT_IN)


def said(kind: Kind, scope: str | None = None, at: datetime | None = T1, *, imported: bool = True) -> Said:
    return Said(kind, scope or scope_of(kind, None), at, "a list", "asked to", imported)


def heard(*statements: Said) -> Known:
    """What stands after these."""
    known: Known = {}
    for one in statements:
        _, known = hear(known, one, "ana")
    return known


def verdict(known: Known, one: Said) -> Verdict:
    return hear(known, one, "ana")[0]


# --- what silences what --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "scope", "purpose", "code"),
    [
        (Kind.OPT_OUT, MARKETING, MARKETING, "opted_out_of_marketing"),
        (Kind.OPT_OUT, MARKETING, "service", None),
        (Kind.OPT_OUT, MARKETING, SECURITY, None),
        (Kind.OPT_OUT, SECURITY, SECURITY, "opted_out_of_security"),
        (Kind.OPT_OUT, "the weekly plan", "the weekly plan", "opted_out_of_purpose"),
        (Kind.OPT_OUT, ALL, "service", "opted_out"),
        (Kind.OPT_OUT, ALL, "the weekly plan", "opted_out"),
        (Kind.OPT_OUT, ALL, SECURITY, None),
        (Kind.OPT_OUT, EVERYTHING, SECURITY, "opted_out"),
        (Kind.BOUNCE, EVERYTHING, SECURITY, "bounced"),
        (Kind.COMPLAINT, EVERYTHING, "service", "complained"),
        (Kind.MANUAL, EVERYTHING, SECURITY, "suppressed"),
        (Kind.MANUAL, MARKETING, MARKETING, "suppressed"),
        (Kind.MANUAL, MARKETING, "service", None),
        (Kind.OPT_IN, ALL, "service", None),
    ],
)
def test_a_statement_silences_its_scope(kind: Kind, scope: str, purpose: str, code: str | None) -> None:
    """An opt-out of a purpose silences it, one of all spares security, and what is about the address spares nothing."""
    assert objection(heard(said(kind, scope)), purpose) == code


@pytest.mark.parametrize(
    ("kind", "purpose", "even_security", "scope"),
    [
        (Kind.OPT_OUT, None, False, ALL),
        (Kind.OPT_OUT, ALL, True, EVERYTHING),
        (Kind.OPT_OUT, MARKETING, False, MARKETING),
        (Kind.MANUAL, None, False, EVERYTHING),
        (Kind.MANUAL, MARKETING, False, MARKETING),
        (Kind.LIFT, ALL, False, EVERYTHING),
        (Kind.BOUNCE, None, False, EVERYTHING),
        (Kind.COMPLAINT, MARKETING, False, EVERYTHING),
    ],
)
def test_a_scope_follows_from_kind_and_purpose(
    kind: Kind, purpose: str | None, even_security: bool, scope: str
) -> None:
    """A choice of all spares security unless it is said; what is about the address is of everything."""
    assert scope_of(kind, purpose, even_security=even_security) == scope


def test_the_gravest_reason_is_told() -> None:
    """The recipient comes first, then what is about the address, then the purpose, then all purposes."""
    statements = [
        said(Kind.OPT_OUT, ALL),
        said(Kind.OPT_OUT, MARKETING),
        said(Kind.MANUAL, MARKETING),
        said(Kind.OPT_OUT, EVERYTHING),
        said(Kind.MANUAL),
        said(Kind.BOUNCE),
        said(Kind.COMPLAINT),
    ]
    expected = ["opted_out", "opted_out_of_marketing", "suppressed", "opted_out", "suppressed", "bounced", "complained"]
    told = [objection(heard(*statements[: count + 1]), MARKETING) for count in range(len(statements))]
    assert told == expected
    assert objection(heard(*statements), MARKETING, disabled=True) == "channel_disabled"
    assert objection(heard(*statements), MARKETING, deleted=True, disabled=True) == "recipient_deleted"


def test_entries_are_known_by_kind_and_scope() -> None:
    """What a database has kept, in any order, is what was heard."""
    known = heard(said(Kind.OPT_OUT), said(Kind.OPT_OUT, MARKETING), said(Kind.BOUNCE))
    assert entries_of(reversed(list(known.values()))) == known


def test_what_a_claim_reads_is_enough() -> None:
    """A hard stop is told apart from purposes, and an opt-in is neither."""
    assert (hard_stop(heard(said(Kind.BOUNCE))), silences_some(heard(said(Kind.BOUNCE)))) == ("bounced", False)
    assert (hard_stop(heard(said(Kind.OPT_OUT))), silences_some(heard(said(Kind.OPT_OUT)))) == (None, True)
    assert silences_some(heard(said(Kind.OPT_IN))) is False


@pytest.mark.parametrize(("kind", "scope"), list(product(Kind, SCOPES)))
def test_every_code_has_a_sentence(kind: Kind, scope: str) -> None:
    """Whatever silences has a code that people can read."""
    code = code_of(kind, scope)
    assert (code is None) == (kind in (Kind.OPT_IN, Kind.LIFT))
    assert code is None or code in REASONS


# --- what ends what ------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", [MARKETING, ALL, EVERYTHING])
@pytest.mark.parametrize("other", [MARKETING, ALL, EVERYTHING])
def test_an_opt_in_ends_the_opt_out_of_its_own_scope(scope: str, other: str) -> None:
    """A later opt-in ends the opt-out of the same scope, and of no other."""
    known = heard(said(Kind.OPT_OUT, scope), said(Kind.OPT_IN, other, T2))
    assert ((Kind.OPT_OUT, scope) in known) is (scope != other)


@pytest.mark.parametrize("kind", SUPPRESSIONS)
@pytest.mark.parametrize("imported", [True, False])
def test_no_opt_in_ends_a_suppression(kind: Kind, imported: bool) -> None:
    """A bounce, a complaint and an operator's word stand against every opt-in, also one that is said now."""
    known = heard(said(kind))
    for scope in (MARKETING, ALL, EVERYTHING):
        opt_in = said(Kind.OPT_IN, scope, T3, imported=imported)
        assert hear(known, opt_in, "ana") == (Verdict.KEPT_OUT, known)


def test_a_suppressed_purpose_keeps_out_its_own_opt_in_only() -> None:
    """What an operator has suppressed for one purpose stands against an opt-in of that purpose."""
    known = heard(said(Kind.MANUAL, MARKETING))
    assert verdict(known, said(Kind.OPT_IN, MARKETING, T2)) is Verdict.KEPT_OUT
    assert verdict(known, said(Kind.OPT_IN, ALL, T2)) is Verdict.RECORDED


@pytest.mark.parametrize("kind", SUPPRESSIONS)
def test_a_lift_ends_a_suppression(kind: Kind) -> None:
    """A lift ends it; where there is nothing to lift it changes nothing."""
    known = heard(said(kind), said(Kind.OPT_OUT))
    assert verdict(known, said(Kind.LIFT)) is Verdict.RECORDED
    after = hear(known, said(Kind.LIFT), "ana")[1]
    assert set(after) == {(Kind.OPT_OUT, ALL)}
    assert hear(after, said(Kind.LIFT), "ana") == (Verdict.ALREADY, after)


def test_a_lift_of_a_purpose_ends_only_that() -> None:
    """A bounce is not of a purpose, so the lift of one leaves it."""
    known = heard(
        said(Kind.MANUAL, MARKETING), said(Kind.MANUAL, "service"), said(Kind.BOUNCE), said(Kind.LIFT, MARKETING)
    )
    assert set(known) == {(Kind.MANUAL, "service"), (Kind.BOUNCE, EVERYTHING)}


# --- times ---------------------------------------------------------------------------------------

#: time of the opt-out, time of the opt-in, and whether the opt-in is let in.
ORDER = [
    (T1, T2, True),
    (T2, T1, False),
    (T1, T1, False),
    (None, T2, False),
    (T1, None, False),
    (None, None, False),
]


@pytest.mark.parametrize(("out", "back", "let_in"), ORDER)
def test_an_imported_opt_in_must_clearly_follow(out: datetime | None, back: datetime | None, let_in: bool) -> None:
    """It is kept out by an opt-out that is newer, as old, or of unknown time; and by any if its own is unknown."""
    known = heard(said(Kind.OPT_OUT, at=out))
    answer, after = hear(known, said(Kind.OPT_IN, at=back), "ana")
    assert answer is (Verdict.RECORDED if let_in else Verdict.KEPT_OUT)
    assert (objection(after, "service") is None) is let_in
    assert let_in or after == known


@pytest.mark.parametrize("at", [T1, T3, None])
def test_what_is_said_now_follows_everything(at: datetime | None) -> None:
    """An opt-in that is said to us ends any opt-out of its scope, and an opt-out any opt-in."""
    back = heard(said(Kind.OPT_OUT, at=at), said(Kind.OPT_IN, at=T2, imported=False))
    assert objection(back, "service") is None
    out = heard(said(Kind.OPT_IN, at=at), said(Kind.OPT_OUT, at=T2, imported=False))
    assert objection(out, "service") == "opted_out"


def test_an_old_opt_out_is_recorded_and_silences_nothing() -> None:
    """One that is clearly older than the opt-in on record goes into the history only."""
    known = heard(said(Kind.OPT_IN, at=T2))
    assert hear(known, said(Kind.OPT_OUT, at=T1), "ana") == (Verdict.RECORDED, known)
    assert objection(heard(said(Kind.OPT_IN, at=None), said(Kind.OPT_OUT, at=T1)), "service") == "opted_out"


@pytest.mark.parametrize("kind", [Kind.OPT_OUT, *SUPPRESSIONS])
def test_a_later_statement_takes_the_place_of_an_earlier(kind: Kind) -> None:
    """The latest stands, unknown counts as latest, and what is not later is already there."""
    known = heard(said(kind, at=T1))
    assert verdict(known, said(kind, at=T1)) is Verdict.ALREADY
    assert verdict(known, said(kind, at=T2)) is Verdict.RECORDED
    assert verdict(known, said(kind, at=T2, imported=False)) is Verdict.ALREADY
    unknown = heard(said(kind, at=T1), said(kind, at=None))
    assert [entry.at for entry in unknown.values()] == [None]
    assert verdict(unknown, said(kind, at=T3)) is Verdict.ALREADY


def test_an_opt_in_again_is_already_there() -> None:
    """One that is not later than the one on record says nothing new."""
    known = heard(said(Kind.OPT_IN, at=T2))
    assert [verdict(known, said(Kind.OPT_IN, at=at)) for at in (T1, T2, None)] == [Verdict.ALREADY] * 3
    assert verdict(known, said(Kind.OPT_IN, at=T3)) is Verdict.RECORDED


STATEMENTS = st.lists(
    st.builds(
        said,
        st.sampled_from(CHOICES),
        st.sampled_from([MARKETING, ALL, EVERYTHING]),
        st.sampled_from([T1, T2, T3]),
    ),
    max_size=4,
)


@given(STATEMENTS)
def test_choices_of_known_times_may_come_in_any_order(statements: list[Said]) -> None:
    """Whatever the order in which they are imported, the same choices end in the same silence."""
    ends = {frozenset(heard(*order)) for order in permutations(statements)}
    assert len(ends) == 1


@given(STATEMENTS, st.sampled_from([MARKETING, ALL, EVERYTHING]), st.sampled_from([T1, T2, T3, None]))
def test_only_an_opt_in_or_a_lift_ever_speaks_for_sending(
    statements: list[Said], scope: str, at: datetime | None
) -> None:
    """No other statement takes an objection away, whatever stands."""
    before = heard(*statements)
    for kind in (Kind.OPT_OUT, *SUPPRESSIONS):
        after = hear(before, said(kind, scope if kind is Kind.OPT_OUT else None, at), "ana")[1]
        for purpose in (*KNOWN_PURPOSES, "the weekly plan"):
            assert objection(before, purpose) is None or objection(after, purpose) is not None
