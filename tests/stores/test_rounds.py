"""A batch is cut into rounds in which each id stands once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from duly.stores.rounds import rounds

ROWS = st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.integers()), max_size=12)


@given(rows=ROWS)
def test_rows_of_one_id_keep_their_order(rows: list[tuple[bytes, int]]) -> None:
    """No round has an id twice, nothing is lost, and what is about one id stays in order."""
    parts = [list(part) for part in rounds(rows, lambda row: row[0])]
    assert all(len({identity for identity, _ in part}) == len(part) > 0 for part in parts)
    for name in (b"a", b"b", b"c"):
        assert [row for part in parts for row in part if row[0] == name] == [row for row in rows if row[0] == name]


def test_distinct_rows_are_one_round() -> None:
    """Where every id stands once, nothing is cut, and nothing makes no round."""
    assert list(rounds([b"a", b"b"], lambda row: row)) == [[b"a", b"b"]]
    assert list(rounds([], lambda row: row)) == []
