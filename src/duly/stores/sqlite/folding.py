"""Fold: late deliveries are taken up by a summary, and share its end."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from duly.core import keys
from duly.core.folding import RETIRED, TEMPLATE, Foldable, Folding, Gathered, Gathering, gather, share_of, share_reason
from duly.core.moments import instant
from duly.core.revising import SURELY_UNSENT
from duly.core.states import State
from duly.stores.sqlite import rows as stored
from duly.stores.sqlite.connect import Database
from duly.stores.sqlite.guarding import standing
from duly.stores.sqlite.moves import Ending, Entries, Row, open_rows, open_rows_of

__all__ = ["fold", "retire_summaries", "share_fates", "take_out"]

LATE: Final = "late"
SENT: Final = share_reason(State.SENT, "")


class Ended(NamedTuple):
    """A summary that has ended."""

    id: bytes
    status: str
    reason: str
    finished_at: int


# --- folding -------------------------------------------------------------------------------------


def fold(db: Database, worker: str, rows: Sequence[Folding]) -> dict[bytes, bytes]:
    """See Store.fold."""
    folded: dict[bytes, bytes] = {}
    with db.writing():
        if standing(db):
            return folded
        namespace, now = db.value("namespace"), stored.moment(db.now())
        found = [seen for row in rows if (seen := _foldable(db, worker, row)) is not None]
        for one in gather(found, namespace, now):
            if _write(db, worker, one, instant(now)):
                folded |= dict.fromkeys(one.members, one.summary.id)
        _fold(db, worker, [row for row in rows if row.id in folded], folded)
    return folded


def _foldable(db: Database, worker: str, row: Folding) -> Foldable | None:
    db.change("summary_let_go", id=row.id, bundle=row.group)
    seen = db.row("foldable", id=row.id, fence=row.fence, revision=row.revision, bundle=row.group, worker=worker)
    if seen is None:
        return None
    account, channel, recipient, contact, due_at, deadline_at, folds, *summary = seen
    moments = (stored.moment(due_at), stored.moment(deadline_at))
    return Foldable(row, account, stored.CHANNELS[channel], (recipient, contact), *moments, folds, _gathering(*summary))


def _gathering(delivery: bytes | None, reminder: bytes, data: str, *moments: int) -> Gathering | None:
    return None if delivery is None else Gathering(delivery, reminder, data, *map(stored.moment, moments))


def _write(db: Database, worker: str, one: Gathered, now: str) -> bool:
    """Make the summary, or extend it. False: it was there before."""
    summary = one.summary
    moments = {"due_at": stored.micros(summary.due_at), "deadline_at": stored.micros(summary.deadline_at)}
    if one.new_key is None:
        db.change("summary_extend_work", id=summary.id, bundle=one.group, send_at=stored.micros(one.send_at), **moments)
        db.change("summary_extend_delivery", id=summary.id, **moments)
        db.change(
            "summary_extend_reminder", reminder=summary.reminder, data=summary.parts, deadline_at=moments["deadline_at"]
        )
        return True
    return _add(db, worker, one, moments, now)


def _add(db: Database, worker: str, one: Gathered, moments: dict[str, int], now: str) -> bool:
    summary, lender, key = one.summary, one.members[0], one.new_key or ""
    own: dict[str, Any] = {"id": summary.id, "reminder": summary.reminder, "lender": lender, "bundle": one.group}
    if not db.change("summary_add_work", **own, **moments, send_at=stored.micros(one.send_at)):
        return False
    body = {"key": key, "body_hash": keys.payload_hash(key.encode()), "template": TEMPLATE, "data": summary.parts}
    db.change("summary_add_reminder", id=summary.id, lender=lender, late_from=now, **body)
    db.change("summary_add_delivery", id=summary.id)
    db.change("summary_add_event", id=summary.id, worker=worker)
    return True


def _fold(db: Database, worker: str, rows: Sequence[Folding], into: dict[bytes, bytes]) -> None:
    entries = Entries()
    for row in open_rows_of(db, rows).values():
        evidence = json.dumps({"summary": keys.show(into[row.id])})
        entries.move(row, row._replace(state=State.FOLDED, reason=LATE))
        entries.note(row, "folded", State.FOLDED, worker, LATE, evidence)
    entries.write(db)
    db.change_each("work_count_fold", [(row.id,) for row in rows])
    db.change_each("delivery_fold", [(into[row.id], row.id) for row in rows])


# --- taken out again -----------------------------------------------------------------------------


def retire_summaries(db: Database, actor: str, reminder: bytes) -> None:
    """Take the deliveries of a reminder out of summaries of which nothing can have left."""
    take_out(db, actor, open_rows(db, "folded_of_reminder", reminder=reminder))


def take_out(db: Database, actor: str, folded: Iterable[Row]) -> None:
    """End the summaries of which nothing can have left, and return these rows of theirs."""
    entries, retired = Entries(), dict[bytes, bool]()
    for row in folded:
        summary: bytes = db.value("summary_of", id=row.id)
        if summary not in retired:
            retired[summary] = _retire(db, actor, summary, entries)
        if retired[summary]:
            _return(row, db.now(), actor, RETIRED, entries)
    entries.write(db)


def _retire(db: Database, actor: str, summary: bytes, entries: Entries) -> bool:
    """Whether nothing of it is left to be waited for: it has come to nothing, or does so now."""
    rows = open_rows(db, "open_rows", ids=summary)
    if not rows:
        return share_of(db.value("delivery_status", id=summary)) == State.READY
    if rows[0].doubt or rows[0].state not in SURELY_UNSENT:
        _call_off(db, actor, rows[0], entries)
        return False
    entries.end(rows[0], State.CANCELLED, RETIRED)
    entries.note(rows[0], "cancelled", State.CANCELLED, actor, RETIRED)
    return True


def _call_off(db: Database, actor: str, row: Row, entries: Entries) -> None:
    """What may have left is not sent once more."""
    if db.change("work_call_off", id=row.id):
        db.change("delivery_call_off", id=row.id)
        entries.note(row, "cancelled", row.state, actor, RETIRED)


def _return(row: Row, now: int, actor: str, reason: str, entries: Entries) -> None:
    entries.move(row, row._replace(state=State.READY, reason=None, next_at=now))
    entries.note(row, "unfolded", State.READY, actor, reason)


# --- the fate that they share --------------------------------------------------------------------


def share_fates(db: Database, limit: int, actor: str) -> Counter[str]:
    """See Store.share_fates."""
    counts, entries = Counter[str](), Entries()
    with db.writing():
        ended = [Ended(*row) for row in db.rows("summaries_ended", limit=limit)]
        for summary in ended:
            rows = open_rows(db, "folded_into", summary=summary.id, accepted=int(summary.status == State.SENT))
            counts[share_of(summary.status)] += len(rows)
            _share(db, summary, rows, actor, entries)
        entries.write(db)
        db.change_each("summary_shared", [(summary.id,) for summary in ended])
    return counts


def _share(db: Database, summary: Ended, rows: Sequence[Row], actor: str, entries: Entries) -> None:
    state, reason = State(share_of(summary.status)), share_reason(summary.status, summary.reason)
    if state is State.READY:
        for row in rows:
            _return(row, db.now(), actor, reason, entries)
        db.change_each("work_count_return", [(row.id,) for row in rows if reason != RETIRED])
        return
    for row in rows:
        entries.end(row, state, reason, summary.finished_at)
        entries.note(row, "unfolded", state, actor, reason)
    if state is State.SENT:
        _correct(db, summary, actor, entries)


def _correct(db: Database, summary: Ended, actor: str, entries: Entries) -> None:
    """What it carried has arrived, whatever was believed before."""
    for delivery, account, reminder, state, *rest in db.rows("carried_and_ended", summary=summary.id):
        row = Ending(delivery, account, reminder, State(state), *rest)
        entries.end(row, State.SENT, SENT, summary.finished_at)
        entries.note(row, "corrected", State.SENT, actor, SENT)
