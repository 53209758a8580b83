"""Where the ledger and the receivers disagree: pure, from what was submitted, what was seen and what is said.

Each rule is a sentence of the promise. A rule yields what breaks it: the delivery's id (or the reminder's
key, where it has none) and a line that says how.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, Final, NamedTuple

from soak.installation import Kind
from soak.journal import Entry, Seen
from soak.ledger import Ledger, Shown
from soak.submitting import Submitted

__all__ = ["AT_REST", "RULES", "Evidence", "Violation", "figures", "history", "judge"]

FINAL: Final = frozenset(
    {"sent", "rejected", "dead", "expired", "suppressed", "cancelled", "shadowed", "skipped", "unconfirmed"}
)
#: States in which nobody moves a delivery on before an operator does, or that are final.
AT_REST: Final = FINAL | {"held"}
MAY_BE_ACCEPTED: Final = frozenset({"sent", "held", "unconfirmed"})
UNDECIDED: Final = frozenset({"held", "unconfirmed"})


class Violation(NamedTuple):
    """One promise that was not kept, for one delivery (or for a reminder's key)."""

    rule: str
    id: str
    told: str


class Evidence:
    """All that is known, put together by delivery."""

    def __init__(self, submitted: Mapping[str, Submitted], entries: Sequence[Entry], ledger: Ledger) -> None:
        self.submitted, self.entries, self.ledger = submitted, entries, ledger

    @cached_property
    def by_id(self) -> dict[str, list[Entry]]:
        """What the receivers saw of each id, in order."""
        found: dict[str, list[Entry]] = defaultdict(list)
        for entry in self.entries:
            found[entry.id].append(entry)
        return found

    def seen(self, identity: str, *what: Seen) -> list[Entry]:
        """What the receivers saw of one id, of these kinds."""
        return [entry for entry in self.by_id.get(identity, ()) if entry.seen in what]

    def deliveries(self, *kinds: Kind) -> Iterator[tuple[str, Shown, Submitted]]:
        """Id, delivery and reminder of those that go to receivers of these kinds; none named: of all."""
        for identity, shown in self.ledger.deliveries.items():
            reminder = self.submitted.get(shown["reminder"])
            if reminder is not None and (not kinds or reminder.kind in kinds):
                yield identity, shown, reminder


#: What breaks a rule: an id or a key, and how.
Breaks = Iterator[tuple[str, str]]


def _lost(evidence: Evidence) -> Breaks:
    for key, status in evidence.ledger.without_delivery.items():
        reminder = evidence.submitted[key]
        if reminder.taken and not (status == "cancelled" and reminder.cancel_asked):
            yield key, f"the reminder is {status} and has no delivery"


def _unfinished(evidence: Evidence) -> Breaks:
    for identity, shown, _ in evidence.deliveries():
        if shown["status"] not in AT_REST:
            yield identity, f"{shown['status']} in the end ({shown['reason']}), next step at {shown['next_at']}"


def _sent_without_acceptance(evidence: Evidence) -> Breaks:
    for identity, shown, _ in evidence.deliveries():
        if shown["status"] == "sent" and not evidence.seen(identity, Seen.ACCEPTED):
            yield identity, "sent, and no receiver accepted it"


def _accepted_and_denied(evidence: Evidence) -> Breaks:
    for identity, shown, _ in evidence.deliveries():
        if shown["status"] not in MAY_BE_ACCEPTED and evidence.seen(identity, Seen.ACCEPTED):
            yield identity, f"{shown['status']} ({shown['reason']}), and a receiver accepted it"


def _counted_twice(evidence: Evidence) -> Breaks:
    for identity in evidence.by_id:
        counted = len(evidence.seen(identity, Seen.ACCEPTED))
        if counted > 1:
            yield identity, f"its receiver accepted it {counted} times"


def _other_bytes(evidence: Evidence) -> Breaks:
    for identity in evidence.by_id:
        hashes = {entry.body_hash for entry in evidence.seen(identity, Seen.ACCEPTED, Seen.REPEAT)}
        if len(hashes) > 1:
            yield identity, f"repeated with other bytes: {sorted(one[:12] for one in hashes)}"


def _asked_again(evidence: Evidence) -> Breaks:
    for identity, _, reminder in evidence.deliveries(Kind.LOOKUP, Kind.NOTHING):
        seen = [entry.seen for entry in evidence.seen(identity, Seen.REQUEST, Seen.ACCEPTED)]
        if Seen.ACCEPTED in seen and Seen.REQUEST in seen[seen.index(Seen.ACCEPTED) :]:
            yield identity, f"{reminder.path} was asked to accept it again after it had"


def _sent_in_doubt(evidence: Evidence) -> Breaks:
    """Where nothing can be asked and nothing is dropped, nothing follows an attempt that may have been accepted."""
    for identity, shown, _ in evidence.deliveries(Kind.NOTHING):
        unknown = [attempt["number"] for attempt in shown["attempts"] if is_unknown(attempt)]
        if unknown and shown["attempts"][-1]["number"] > unknown[0]:
            yield identity, f"attempt {unknown[0]} may have been accepted, and attempt {unknown[0] + 1} followed"
        elif unknown and shown["status"] not in UNDECIDED:
            yield identity, f"{shown['status']}, and attempt {unknown[0]} may have been accepted"


def _request_without_attempt(evidence: Evidence) -> Breaks:
    for identity in evidence.by_id:
        requests = len(evidence.seen(identity, Seen.REQUEST))
        attempts = len(evidence.ledger.deliveries.get(identity, {}).get("attempts", ()))
        if requests > attempts:
            yield identity, f"{requests} requests came, and {attempts} attempts are on record"


def _bytes_without_attempt(evidence: Evidence) -> Breaks:
    for identity, shown, _ in evidence.deliveries():
        recorded = {attempt["payload_hash"] for attempt in shown["attempts"]}
        if any(entry.body_hash not in recorded for entry in evidence.seen(identity, Seen.REQUEST)):
            yield identity, "a request came with bytes that no attempt on record has"


def _refused_and_accepted(evidence: Evidence) -> Breaks:
    for identity, shown, _ in evidence.deliveries():
        accepted = sum(attempt["outcome"] == "accepted" for attempt in shown["attempts"])
        counted = len(evidence.seen(identity, Seen.ACCEPTED, Seen.REPEAT))
        if accepted > counted:
            yield identity, f"{accepted} attempts are on record as accepted, and the receiver accepted {counted}"


def _sent_after_cancel(evidence: Evidence) -> Breaks:
    by_key = {shown["reminder"]: identity for identity, shown, _ in evidence.deliveries()}
    for key, reminder in evidence.submitted.items():
        identity = by_key.get(key, "")
        if not reminder.will_not_be_sent or not identity:
            continue
        late = [one for one in evidence.seen(identity, Seen.REQUEST) if one.at > (reminder.cancelled_at or 0.0)]
        if late:
            yield identity, f"sent {late[0].at - (reminder.cancelled_at or 0.0):.3f} s after the cancel had stopped it"


def _unasked_look(evidence: Evidence) -> Breaks:
    for identity, _, reminder in evidence.deliveries(Kind.KEYED, Kind.NOTHING):
        if evidence.seen(identity, Seen.LOOK):
            yield identity, f"looked up, and {reminder.path} never said that it can be asked"


RULES: Final[Mapping[str, Callable[[Evidence], Breaks]]] = {
    "every reminder has its delivery": _lost,
    "every delivery is final or held": _unfinished,
    "sent means accepted": _sent_without_acceptance,
    "accepted means sent, held or unconfirmed": _accepted_and_denied,
    "nothing is accepted twice": _counted_twice,
    "a repeat has the same bytes": _other_bytes,
    "nobody is asked again who had accepted": _asked_again,
    "nothing is sent in doubt where nothing can be asked": _sent_in_doubt,
    "no request without its attempt": _request_without_attempt,
    "no bytes without their attempt": _bytes_without_attempt,
    "an attempt is accepted only if it was": _refused_and_accepted,
    "nothing is sent after a cancel that stopped it": _sent_after_cancel,
    "nobody is looked up who did not offer it": _unasked_look,
}


def judge(evidence: Evidence) -> list[Violation]:
    """Every promise that was not kept."""
    return [Violation(rule, identity, told) for rule, find in RULES.items() for identity, told in find(evidence)]


def is_unknown(attempt: Mapping[str, Any]) -> bool:
    """Whether nobody knows if the attempt was accepted."""
    return attempt["outcome"] in (None, "unknown")


def history(evidence: Evidence, identity: str) -> list[str]:
    """What both sides say of one delivery, in order of time: seconds since its first line."""
    seen = evidence.seen(identity, *Seen)
    lines = [(entry.at, f"receiver: {entry.seen} {entry.path} ({entry.act})") for entry in seen]
    if shown := evidence.ledger.deliveries.get(identity):
        lines += [*_attempts(shown), *_events(shown)]
        if reminder := evidence.submitted.get(shown["reminder"]):
            lines += _cancel(reminder)
    lines.sort()
    return [f"{at - lines[0][0]:9.3f} {text}" for at, text in lines]


def _attempts(shown: Shown) -> Iterator[tuple[float, str]]:
    for one in shown["attempts"]:
        yield _seconds(one["started_at"]), f"ledger: attempt {one['number']} begins, {one['worker']}"
        if one["finished_at"]:
            told = f"{one['outcome']} {one['class'] or ''} {one['http_status'] or ''}".strip()
            yield _seconds(one["finished_at"]), f"ledger: attempt {one['number']} is {told}"


def _events(shown: Shown) -> Iterator[tuple[float, str]]:
    for one in shown["events"]:
        yield (
            _seconds(one["at"]),
            f"ledger: {one['kind']}, {one['from']} to {one['to']}, {one['reason']}, {one['actor']}",
        )


def _cancel(reminder: Submitted) -> Iterator[tuple[float, str]]:
    if reminder.cancelled_at is not None:
        yield reminder.cancelled_at, f"application: cancelled, and was told {reminder.cancel_answer}"


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


# --- figures -------------------------------------------------------------------------------------


def figures(evidence: Evidence) -> dict[str, dict[str, int]]:
    """For each kind of receiver, what was submitted, what it saw, and where its deliveries ended."""
    return {kind.value: _figures(evidence, kind) for kind in Kind}


def _figures(evidence: Evidence, kind: Kind) -> dict[str, int]:
    shown = [one for _, one, _ in evidence.deliveries(kind)]
    seen = Counter(entry.seen for identity, _, _ in evidence.deliveries(kind) for entry in evidence.by_id[identity])
    ended = Counter(one["status"] for one in shown)
    return {
        "submitted": sum(one.taken and one.kind is kind for one in evidence.submitted.values()),
        "deliveries": len(shown),
        "attempts": sum(len(one["attempts"]) for one in shown),
        "requests": seen[Seen.REQUEST],
        "accepted": seen[Seen.ACCEPTED],
        "repeats_dropped": seen[Seen.REPEAT],
        "look_ups": seen[Seen.LOOK],
        "were_in_doubt": sum(any(map(_was_in_doubt, one["attempts"])) for one in shown),
        "worker_lost": sum(any(a["class"] == "worker_lost" for a in one["attempts"]) for one in shown),
        **{word: ended[word] for word in ("sent", "held", "cancelled")},
        "other": len(shown) - sum(ended[word] for word in ("sent", "held", "cancelled")),
    }


def _was_in_doubt(attempt: Mapping[str, Any]) -> bool:
    return is_unknown(attempt) or attempt["class"] == "worker_lost"
