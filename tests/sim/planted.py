"""Faults that are planted on purpose: edits of Duly's own source, each a real way to write such a system wrong.

A planted fault is a text of one file below `src/duly`, which must occur there exactly once, and what stands in its
place instead. The simulation has to notice each of them within SEEDS_MAX seeds: a judge that has never said no proves
nothing. Each fault names the checkers whose sentence it breaks. Which is first depends on the seed. Another one, or
a plain crash, does not count.

Where a fault cannot be noticed, and why that is right, stands in docs/reference/planted-faults.md.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duly

__all__ = ["FAULTS", "SEEDS_MAX", "SOURCE", "Planted", "copy_source", "plant"]

SOURCE: Final = Path(duly.__file__).parent
#: In so many seeds, from 1 on, a fault may hide.
SEEDS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Planted:
    """One fault. `breaks` and `change` are for people."""

    name: str
    breaks: str
    change: str
    file: str  # below src/duly
    original: str
    replacement: str
    caught_by: tuple[str, ...]  # names of checkers
    also: tuple[tuple[str, str, str], ...] = ()  # further edits: where several defences would have to fall

    def edits(self) -> tuple[tuple[str, str, str], ...]:
        """All of its edits: file, original, replacement."""
        return ((self.file, self.original, self.replacement), *self.also)

    def row(self) -> str:
        """Its row of the reference page."""
        return f"| **{self.name}** | {self.breaks} | {self.change} | {', '.join(self.caught_by)} |"


def copy_source(folder: Path) -> Path:
    """A copy of the package in a folder; returns its root. What was compiled comes along and stays valid."""
    being_written = shutil.ignore_patterns("*.pyc.*")  # by other processes, and soon gone
    return Path(shutil.copytree(SOURCE, folder / "duly", ignore=being_written))


def plant(fault: Planted, root: Path) -> None:
    """Edit a copy. Raises LookupError where an original text is not there exactly once."""
    for file, original, replacement in fault.edits():
        path = root / file
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        found = text.count(original)
        if found != 1:
            raise LookupError(
                f"planted fault {fault.name!r}: its original text stands {found} times in src/duly/{file}, not once;"
                " write the fault anew for the code as it is now, in tests/sim/planted.py"
            )
        path.write_text(text.replace(original, replacement), encoding="utf-8")


FAULTS: Final = (
    Planted(
        "unfenced settle",
        "a worker that lost its lease moves the row of the worker that has it now",
        "a settlement moves its row whatever its fence and number",
        "stores/sqlite/settling.py",
        "    return (row.state, row.fence, row.attempts) == (State.SENDING, new.fence, new.number)\n",
        "    return row.state is State.SENDING\n",
        ("WritesAreFenced", "EveryMoveIsExplained"),
    ),
    Planted(
        "acceptance needs a fence",
        "an acceptance that comes late, or by another way, is not believed",
        "an acceptance moves its row only under the row's own fence",
        "stores/sqlite/settling.py",
        "        if new.result.outcome is Outcome.ACCEPTED:\n",
        "        if new.result.outcome is Outcome.ACCEPTED and row is not None and _is_its_own(new, row):\n",
        ("AcceptanceWins",),
    ),
    Planted(
        "a refusal clears doubt",
        "an answer to the second request is taken to speak for the first",
        "after a settle a row is in doubt only if this very attempt is unknown",
        "stores/sqlite/settling.py",
        "        doubt=row.doubt or unknown,\n",
        "        doubt=unknown,\n",
        ("NoRepeatWithoutAKey", "DoubtIsNotForgotten"),
    ),
    Planted(
        "window from the last unknown",
        "each unknown repeat is thought to lengthen the receiver's memory",
        "the key window is counted from the latest unknown attempt, not from the first",
        "stores/sqlite/settling.py",
        "        first_unknown_at=(row.first_unknown_at or _started_at(db, new, finished_at))\n",
        "        first_unknown_at=_started_at(db, new, finished_at)\n",
        ("NoRepeatWithoutAKey",),
    ),
    Planted(
        "a result may be overwritten",
        "a late and vague answer replaces a definite one",
        "a result that is on record gives way to whatever comes",
        "stores/sql/sqlite/moves.sql",
        "where attempt_result.outcome = 'unknown' and excluded.outcome <> 'unknown';",
        "where true;",
        ("ResultsStand",),
    ),
    Planted(
        "trust to the lease's end",
        "a request starts that will outlive its lease",
        "the provider's timeout and the margin are not taken off the lease",
        "flows/route.py",
        "        return self.lease_seconds - self.provider.timeout_seconds - LEASE_MARGIN_SECONDS\n",
        "        return self.lease_seconds\n",
        ("StartsWithinItsLease",),
    ),
    Planted(
        "trust from after the claim",
        "a claim whose answer came late is trusted for that much too long",
        "the batch is stamped when the claim is answered, not before it is asked for",
        "flows/claim.py",
        "    return Batch(asked_at, claims[-1].now, rows) if rows else None\n",
        "    return Batch(clock.reading(), claims[-1].now, rows) if rows else None\n",
        ("StartsWithinItsLease",),
    ),
    Planted(
        "the send does not ask the time again",
        "a worker that stood still between begin and send sends for a lease that is over",
        "a request carries no moment after which it must not start",
        "flows/deliver.py",
        "    return Request(route.last_token, content, lease.reading_at(item.good_until))\n",
        '    return Request(route.last_token, content, float("inf"))\n',
        ("StartsWithinItsLease",),
    ),
    Planted(
        "attempt after the call",
        "a crash after the request leaves nothing on record",
        "the requests are handed over first and their attempts are written afterwards",
        "flows/deliver.py",
        (
            "    try:\n"
            "        begun = await route.store.begin(route.provider.name, route.worker, [_start(route, "
            "item) for item in ready])\n"
            "    except StoreUnavailable:\n"
            "        return 0  # whether they began, nobody knows: so nothing is sent, and all are given back\n"
            "    fly = [item for item in ready if item.lease.row.id in begun.numbers]\n"
            "    requests = [_request(route, item, begun.numbers[item.lease.row.id]) for item in fly]\n"
            "    for item, request in zip(fly, requests, strict=True):\n"
            "        _take_off(route, item, begun.numbers[item.lease.row.id], request.token)\n"
            "    await route.transport.start(requests)\n"
        ),
        (
            "    sent = [_request(route, item, item.lease.row.attempts + 1) for item in ready]\n"
            "    await route.transport.start(sent)\n"
            "    try:\n"
            "        begun = await route.store.begin(route.provider.name, route.worker, [_start(route, "
            "item) for item in ready])\n"
            "    except StoreUnavailable:\n"
            "        return 0\n"
            "    fly = [item for item in ready if item.lease.row.id in begun.numbers]\n"
            "    requests = [request for item, request in zip(ready, sent, strict=True) if item in fly]\n"
            "    for item, request in zip(fly, requests, strict=True):\n"
            "        _take_off(route, item, begun.numbers[item.lease.row.id], request.token)\n"
        ),
        ("NoRequestWithoutAttempt",),
    ),
    Planted(
        "request without begin",
        "a request leaves although nobody knows whether its attempt is on record",
        "a begin that was not answered counts as done",
        "flows/deliver.py",
        "        return 0  # whether they began, nobody knows: so nothing is sent, and all are given back\n",
        (
            "        from duly.core.model import Begun\n"
            "\n"
            "        begun = Begun({item.lease.row.id: item.lease.row.attempts + 1 for item in ready}, {})\n"
        ),
        ("NoRequestWithoutAttempt", "NotSentHasNotLeft"),
    ),
    Planted(
        "a hidden second request",
        "one attempt asks the receiver twice",
        "every request is handed to the transport twice",
        "flows/deliver.py",
        "    await route.transport.start(requests)\n",
        "    await route.transport.start([*requests, *requests])\n",
        ("NoRequestWithoutAttempt",),
    ),
    Planted(
        "a key for each attempt",
        "the receiver cannot tell a repeat from a new message",
        "the idempotency key is derived from the delivery and the attempt's number",
        "flows/deliver.py",
        "Attempt(keys.show(lease.row.id), number, now)",
        (
            "Attempt(keys.show(keys.derive(keys.show(lease.row.id), str(number)) if number > 1 else "
            "lease.row.id), number, now)"
        ),
        ("NoRequestWithoutAttempt",),
    ),
    Planted(
        "rendered anew in doubt",
        "a repeat has other bytes than what may have been accepted",
        "every attempt renders, whether or not an earlier one binds",
        "flows/deliver.py",
        "        frozen = _bytes_that_bind(row) or _freeze(route, row, now)\n",
        "        frozen = _freeze(route, row, now)\n",
        ("DoubtBindsBytes",),
    ),
    Planted(
        "begin ignores revisions",
        "an opt-out that was committed after the claim does not bind the send",
        "begin no longer compares the revisions that admission saw",
        "stores/sqlite/sending.py",
        "start.revisions == tuple(revisions) and start.good_until > now",
        "start.good_until > now",
        ("NoBeginWhereForbidden", "ConsentIsKept", "PausesAreKept"),
    ),
    Planted(
        "a batch that comes twice is taken twice",
        "the copy of a claimed row is given back while its request is in the air",
        "what is in the worker's hands already is not looked for",
        "flows/deliver.py",
        " for row in batch.rows if (row.id, row.fence) not in ours]\n",
        " for row in batch.rows]\n",
        ("NotSentHasNotLeft",),
    ),
    Planted(
        "gives back what is in the air",
        "a request that has left is counted as not sent",
        "a worker that gives back its seats gives back its flights with them",
        "flows/deliver.py",
        ("    await give_back(route, leases)\n\n\ndef _prepare"),
        (
            "    await give_back(route, [*leases, *(flight.lease for flight in route.flights.values())])\n"
            "\n"
            "\n"
            "def _prepare"
        ),
        ("NotSentHasNotLeft", "NotSentIsTrue"),
    ),
    Planted(
        "acknowledged before it is durable",
        "an answer that the ledger did not take is forgotten",
        "flights are forgotten and slots freed before the settle, not after it",
        "flows/deliver.py",
        (
            "    settled = await route.store.settle(route.provider.name, rows, _signals(said for _, "
            "said in decided))\n"
            "    flights = [route.flights.pop(completion.token) for completion in route.landed]\n"
            "    route.transport.release([flight.destination for flight in flights])\n"
            "    route.landed, route.freed = [], True\n"
        ),
        (
            "    flights = [route.flights.pop(completion.token) for completion in route.landed]\n"
            "    route.transport.release([flight.destination for flight in flights])\n"
            "    route.landed, route.freed = [], True\n"
            "    settled = await route.store.settle(route.provider.name, rows, _signals(said for _, "
            "said in decided))\n"
        ),
        ("NoAnswerIsDropped",),
    ),
    Planted(
        "a timeout is a failure",
        "what may have been accepted is sent again as if it had not been",
        "an unknown answer is taken for a refusal",
        "flows/deliver.py",
        "        return route.provider.classify(completion.answer, now)\n",
        (
            "        result = route.provider.classify(completion.answer, now)\n"
            "        return result._replace(outcome=Outcome.REFUSED) if result.outcome is "
            "Outcome.UNKNOWN else result\n"
        ),
        ("NotSentIsTrue",),
    ),
    Planted(
        "a timeout is a success",
        "what nobody has accepted is called sent",
        "an unknown answer is taken for an acceptance",
        "flows/deliver.py",
        "        return route.provider.classify(completion.answer, now)\n",
        (
            "        result = route.provider.classify(completion.answer, now)\n"
            "        return result._replace(outcome=Outcome.ACCEPTED) if result.outcome is "
            "Outcome.UNKNOWN else result\n"
        ),
        ("SentIsTrue",),
    ),
    Planted(
        "a called-off delivery is sent",
        "a cancel that came while a request was in the air does not bind the next one",
        "admission does not ask whether this delivery was called off",
        "core/admit.py",
        (
            '    if row.reminder_status == "called_off":  # this delivery alone\n'
            '        return _end(row, State.CANCELLED, "called_off")\n'
        ),
        "",
        ("NoBeginWhereForbidden",),
    ),
    Planted(
        "a cancelled reminder is sent",
        "a cancel that came while a request was in the air does not bind the next one",
        "admission does not ask whether the reminder was cancelled",
        "core/admit.py",
        (
            '    if row.reminder_status == "cancelled":\n'
            '        return _end(row, State.CANCELLED, "reminder_cancelled")\n'
        ),
        "",
        ("NoBeginWhereForbidden",),
    ),
    Planted(
        "the key window never ends",
        "a receiver is asked again after it has forgotten",
        "the end of the key window is put a thousand times as far away",
        "core/admit.py",
        "    return first_unknown_at + promise.keyed_for - limits.key_window_margin\n",
        "    return first_unknown_at + promise.keyed_for * 1000\n",
        ("NoRepeatWithoutAKey",),
    ),
    Planted(
        "no margin in the key window",
        "a repeat arrives after the receiver has forgotten",
        "the margin is not taken off the key window",
        "core/admit.py",
        "    return first_unknown_at + promise.keyed_for - limits.key_window_margin\n",
        "    return first_unknown_at + promise.keyed_for\n",
        ("NoRepeatWithoutAKey",),
    ),
    Planted(
        "deadline ignored on retry",
        "a retry is made although it comes too late",
        "admission, begin, sweep and back-off ask for the deadline of first attempts only",
        "core/admit.py",
        "    if now >= row.deadline_at:\n",
        "    if now >= row.deadline_at and not row.attempts:\n",
        ("NoBeginWhereForbidden",),
        (
            ("core/admit.py", "    good_until = min(row.deadline_at, trust_until)\n", "    good_until = trust_until\n"),
            ("core/backoff.py", "    return moment if moment < deadline else None\n", "    return moment\n"),
            (
                "stores/sql/sqlite/sending.sql",
                " and w.deadline_at > db_now();",
                " and (w.attempts or w.deadline_at > db_now());",
            ),
            (
                "stores/sql/sqlite/moves.sql",
                "where state in ('ready', 'waiting') and deadline_at <= db_now() order",
                "where state in ('ready', 'waiting') and deadline_at <= db_now() and not attempts order",
            ),
        ),
    ),
    Planted(
        "a miss without a settling time",
        "what the receiver does not show yet is taken for not accepted",
        "reconcile takes every settling time for zero",
        "flows/reconcile.py",
        (
            "    return desk.providers[row.provider].capabilities(row.frozen.destination if row.frozen "
            "else row.address)\n"
        ),
        (
            "    promise = desk.providers[row.provider].capabilities(row.frozen.destination if "
            "row.frozen else row.address)\n"
            "    return promise._replace(settling=promise.settling and timedelta())\n"
        ),
        ("NotSentIsTrue",),
    ),
    Planted(
        "a hold without an end",
        "a held delivery is never decided",
        "a hold whose end has come begins anew",
        "core/ladder.py",
        '    return Step(State.UNCONFIRMED, "hold_ended")\n',
        "    return Stay(now + hold.ends_after, row.misses)\n",
        ("NothingIsLost",),
    ),
    Planted(
        "a resend that nobody granted",
        "what is in doubt is sent again although the account said hold",
        "the last rung resends whatever the account's policy",
        "core/ladder.py",
        "    if doubts.on_doubt is OnDoubt.RESEND and forbidden is None:\n",
        "    if forbidden is None:\n",
        ("NothingTwice",),
    ),
    Planted(
        "a decision without a fence",
        "whoever looked before the last change decides about it",
        "a decision is applied in whatever state its row is found, under any fence",
        "stores/sqlite/deciding.py",
        "(row.fence, row.state) != (decision.fence, decision.origin)",
        "row.state is not decision.origin",
        ("WritesAreFenced",),
    ),
    Planted(
        "a decision leaves no trace",
        "nobody can say why a delivery ended",
        "decisions write no event",
        "stores/sqlite/deciding.py",
        '        entries.note(row, "decided", decision.state, actor, decision.reason, decision.evidence)\n',
        "        pass\n",
        ("EveryMoveIsExplained",),
    ),
    Planted(
        "a lost worker's request is sent again",
        "an attempt without an answer is taken for not made",
        "a begun row whose lease has ended waits and is tried again, without doubt",
        "stores/sqlite/upkeep.py",
        "        return _give_up(db, actor, row, after, killer, entries)\n",
        (
            "        entries.move(row, after._replace(state=State.WAITING, reason=LOST))\n"
            '        entries.note(row, "lease_ended", State.WAITING, actor, LOST)\n'
            '        return "ready"\n'
        ),
        ("NoRepeatWithoutAKey", "DoubtIsNotForgotten", "NotSentIsTrue"),
    ),
    Planted(
        "expired in doubt",
        "what may have been accepted is said to have come too late",
        "the sweep does not ask whether a row is in doubt",
        "stores/sqlite/upkeep.py",
        ("def _sweep(db: Database, actor: str, row: Row, entries: Entries) -> str:\n    if row.doubt:\n"),
        ("def _sweep(db: Database, actor: str, row: Row, entries: Entries) -> str:\n    if False:\n"),
        ("NotSentIsTrue", "DoubtIsNotForgotten"),
    ),
    Planted(
        "cancelled in doubt",
        "what may have been accepted is said to have been cancelled",
        "a cancel does not ask whether a row is in doubt",
        "stores/sqlite/cancelling.py",
        "    if row.doubt:\n",
        "    if False:\n",
        ("DoubtIsNotForgotten", "NotSentIsTrue"),
    ),
    Planted(
        "poison without an end",
        "a delivery that kills its workers is given to the next one",
        "deaths are not counted",
        "stores/sqlite/upkeep.py",
        "    deaths = row.deaths + (row.suspicion == MOST_SUSPECT)\n",
        "    deaths = 0\n",
        ("NothingIsLost",),
    ),
    Planted(
        "the schedule moves on without its deliveries",
        "an occurrence is lost",
        "the tick moves schedules on, and writes the first delivery of each only",
        "stores/sqlite/intake.py",
        "        wanted = {new.id: new for one in advanced for new in one.deliveries}\n",
        "        wanted = {new.id: new for one in advanced for new in one.deliveries[:1]}\n",
        ("NothingIsLost",),
    ),
    Planted(
        "a tick overwrites a change",
        "a reschedule that comes between the tick's reading and its writing is lost",
        "the schedule is moved on without comparing it with what the tick saw",
        "stores/sqlite/intake.py",
        "        if place is not None and stands == (stored.micros(one.expected_due), one.revision):\n",
        "        if place is not None:\n",
        ("ChangesAreKept", "EverySlotIsAccountedFor"),
    ),
    Planted(
        "a guard that does not shut",
        "a restored ledger sends before anybody has looked",
        "claim and begin do not ask for the guard",
        "stores/sqlite/sending.py",
        "from duly.stores.sqlite.guarding import standing\n",
        "standing = dict().get  # no guard, ever\n",
        ("NoBeginWhereForbidden",),
    ),
    Planted(
        "restored work is not in doubt",
        "what was sent after the backup is sent again",
        "opening the guard leaves open rows as they are",
        "stores/sqlite/guarding.py",
        '    db.change("restore_work", all=everything)\n',
        "",
        ("NothingTwice", "NotSentIsTrue"),
    ),
    Planted(
        "what a tick restores is not in doubt",
        "what was sent after the backup is sent again",
        "a tick after a restore writes what was due before it as ready",
        "stores/sqlite/intake.py",
        "    hidden = [one for one in ready if guards.cover(stored.micros(one.due_at))] if guards.moments else []\n",
        "    hidden: list[NewDelivery] = []\n",
        ("NothingTwice", "NotSentIsTrue"),
    ),
    Planted(
        "expired in a forgotten past",
        "what was sent after the backup is said to have come too late",
        "a tick after a restore judges the deadline of what may have been sent in time",
        "stores/sqlite/intake.py",
        "    return new._replace(state=State.READY, reason=None) if forgotten else new\n",
        "    return new\n",
        ("NotSentIsTrue",),
    ),
    Planted(
        "what was sent is revised",
        "an occurrence is sent again because its reminder was changed",
        "a revision takes what was sent for unsent",
        "core/revising.py",
        "AS_GOOD_AS_SENT: Final = frozenset({State.SENT, State.UNCONFIRMED})\n",
        "AS_GOOD_AS_SENT: Final = frozenset({State.UNCONFIRMED})\n",
        ("EachOccurrenceOnce",),
    ),
    Planted(
        "quiet hours bind the admission only",
        "what was admitted just before quiet hours begins in them",
        "an admission is good whatever quiet hours come next",
        "core/admit.py",
        "    return trust_until if quiet.next_start is None else min(trust_until, quiet.next_start)\n",
        "    return trust_until\n",
        ("QuietHoursAreKept",),
    ),
    Planted(
        "quiet hours of somewhere else",
        "somebody is written to at night",
        "quiet hours are kept in the account's zone, not in the recipient's",
        "intake/quiet.py",
        "candidates.zones_of(row.recipient_zone, phone, ",
        "candidates.zones_of(None, phone, ",
        ("QuietHoursAreKept",),
    ),
    Planted(
        "a begin takes no place",
        "a recipient gets more than his account's cap lets",
        "what begins under a cap is not counted",
        "stores/sqlite/capping.py",
        "for one in begun if one in capped.asks])\n",
        "for one in begun if one in ()])\n",
        ("CapsAreKept",),
    ),
    Planted(
        "an opt-out raises no revision",
        "an opt-out that was committed after the claim does not bind the send",
        "what is said about an address leaves its contact's revision as it is",
        "stores/sql/sqlite/consent.sql",
        "update contact set suppressed = ?, silenced = ?, revision = revision + 1 where id = ?;",
        "update contact set suppressed = ?, silenced = ? where id = ?;",
        ("ConsentIsKept",),
    ),
    Planted(
        "an opt-out of all binds nothing",
        "who wants nothing more gets what has a purpose",
        "a claim looks at what was said about its own purpose only",
        "stores/sql/sqlite/consent.sql",
        "       case when r.purpose <> 'security' then (\n",
        "       case when false then (\n",
        ("ConsentIsKept",),
    ),
    Planted(
        "a deleted recipient is written to",
        "who was deleted gets what was due before",
        "a claim does not ask whether its recipient was deleted",
        "stores/sql/sqlite/consent.sql",
        "case when p.deleted_at is not null then 'recipient_deleted'\n     when",
        "case when",
        ("ConsentIsKept",),
    ),
    Planted(
        "a pause binds the next claim only",
        "what was claimed before the pause of its account is sent in it",
        "a pause leaves the account's revision as it is",
        "stores/sql/sqlite/recipients.sql",
        "update account set paused = :paused, revision = revision + 1 where id = :id and paused <> :paused;",
        "update account set paused = :paused where id = :id and paused <> :paused;",
        ("PausesAreKept",),
    ),
    Planted(
        "a paused reminder is sent",
        "what had fallen due before the pause of its reminder is sent in it",
        "admission does not ask whether the reminder is paused",
        "core/admit.py",
        '    if row.reminder_status == "paused":\n',
        '    if row.reminder_status == "resting":\n',
        ("PausesAreKept",),
    ),
    Planted(
        "all that was missed is fired",
        "after an outage a reminder comes many times at once",
        "a policy of so many slots keeps all of them",
        "core/missed.py",
        "    caught = _judged(run.tail, lambda heads: heads[-policy.keep :], now, policy.grace, run.behind)\n",
        "    caught = _judged(run.tail, lambda heads: heads, now, policy.grace, run.behind)\n",
        ("MissedAsAsked",),
    ),
    Planted(
        "nothing is too old",
        "a reminder that asks to skip what was missed fires it",
        "the grace of what is skipped is a thousand times as long",
        "core/missed.py",
        "SKIP_GRACE: Final = timedelta(minutes=5)\n",
        "SKIP_GRACE: Final = timedelta(minutes=5000)\n",
        ("MissedAsAsked",),
    ),
    Planted(
        "what is skipped is not counted",
        "nobody can say why an occurrence did not come",
        "a tick leaves no event of the slots that it skips",
        "core/firing.py",
        "        _missed(row, caught) if caught.skipped else None,\n",
        "        None,\n",
        ("EverySlotIsAccountedFor",),
    ),
    Planted(
        "due when it was fired",
        "a late occurrence has a moment that no schedule names",
        "what a tick writes late is due now",
        "core/firing.py",
        "        due_at=occurrence.due_at,\n",
        "        due_at=max(now, occurrence.due_at),\n",
        ("OnlyWhatIsNamed", "ChangesAreKept"),
    ),
)
