"""What will become of deliveries that are in doubt of a restore, in counts, as the ladder would decide today.

Deliveries of one provider, endpoint, account and age have one way before them. So the ladder is asked once for each
such group, about a delivery that stands for all of it. What a look-up will find, and what is cancelled or opts out
until then, nobody can foresee.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from duly.core.ladder import Doubts
    from duly.core.limits import Limits
    from duly.core.model import Capabilities, Doubtful
    from duly.runtime.config import Config
    from duly.runtime.worker import Plant

__all__ = ["ASKED", "outcomes", "policy_text"]

ASKED: Final = "asked"
REPEATED: Final = "repeated under the same key"
DECIDED: Final = "resent as decided"
HELD: Final = "held by policy"
RESENT: Final = "resent by policy"
CLOSED: Final = "closed by policy"
NOT_CONFIGURED: Final = "waits: its provider is not configured"
#: Whatever the policy, these stand where they stand.
STANDING: Final[Mapping[str, str]] = {"held": HELD, "folded": "shares the fate of its summary"}
#: The ladder is asked about differences of times, which begin anywhere.
NOW: Final = datetime(2000, 1, 1, tzinfo=UTC)
MOMENT: Final = timedelta(seconds=1)
ACCOUNTS_TOLD_MAX: Final = 5


def outcomes(
    groups: Iterable[Mapping[str, Any]], plant: Plant, config: Config, names: Mapping[str, str]
) -> list[dict[str, Any]]:
    """For each provider, endpoint (null: without terms of its own) and outcome: how many deliveries."""
    counts: Counter[tuple[str, str | None, str]] = Counter()
    for group in groups:
        endpoint = names.get(group["endpoint"])
        counts[group["provider"], endpoint, _outcome(group, endpoint, plant, config)] += group["count"]
    titles = ("provider", "endpoint", "outcome", "count")
    rows = sorted(counts.items(), key=lambda row: (row[0][0], row[0][1] or "", row[0][2]))
    return [dict(zip(titles, (*place, count), strict=True)) for place, count in rows]


def policy_text(config: Config) -> str:
    """What the last rung does: held, but for the accounts that chose otherwise."""
    from duly.core.model import OnDoubt

    words = {OnDoubt.RESEND: "resent", OnDoubt.CLOSE: "closed"}
    chosen = [f"{name}: {words[one.on_doubt]}" for name, one in config.accounts.items() if one.on_doubt in words]
    if not chosen:
        return "held, until an operator decides"
    more = [f"{len(chosen) - ACCOUNTS_TOLD_MAX} more accounts otherwise"] if len(chosen) > ACCOUNTS_TOLD_MAX else []
    return f"held, until an operator decides; of account {', '.join([*chosen[:ACCOUNTS_TOLD_MAX], *more])}"


# --- one group -----------------------------------------------------------------------------------


def _outcome(group: Mapping[str, Any], endpoint: str | None, plant: Plant, config: Config) -> str:
    from duly.core.ladder import Doubts

    if group["state"] in STANDING:
        return STANDING[group["state"]]
    if group["granted"]:
        return DECIDED
    provider = plant.providers.get(group["provider"])
    if provider is None:
        return NOT_CONFIGURED
    policies, account = plant.policies, group["account"]
    doubts = Doubts(policies.on_doubt(account), policies.hold(account))
    promise = provider.capabilities("" if endpoint is None else config.endpoints[endpoint].url)
    return _climbed(_standing_for(group), promise, doubts, plant.limits[group["provider"]])


def _climbed(row: Doubtful, promise: Capabilities, doubts: Doubts, limits: Limits) -> str:
    """The rung on which it would stand now, in a word."""
    from duly.core.ladder import Step, climb
    from duly.core.states import State

    step = climb(row, NOW, 0.0, promise, doubts, limits)
    if not isinstance(step, Step):
        return ASKED
    if step.state is State.READY:
        return RESENT if step.granted else REPEATED
    return CLOSED if step.state is State.UNCONFIRMED else HELD


def _standing_for(group: Mapping[str, Any]) -> Doubtful:
    """A delivery like those of the group: nothing is known of it but what they share."""
    from duly.core.model import Doubtful
    from duly.core.states import State

    return Doubtful(
        id=b"",
        fence=0,
        state=State.UNCERTAIN,
        since=NOW,
        account=group["account"],
        provider=group["provider"],
        address="",
        attempts=0,
        spared=0,
        unknown=1,
        last_unknown=None,
        last_unknown_at=None,
        request_id=None,
        last_outcome=None,
        last_failure=None,
        first_unknown_at=NOW - timedelta(seconds=group["age_seconds"]),
        misses=0,
        missed_at=None,
        due_at=NOW,
        deadline_at=NOW - MOMENT if group["deadline_passed"] else NOW + MOMENT,
        closed=group["closed"],
        restored=True,
        alarmed=False,
        refused=None,
        frozen=None,
    )
