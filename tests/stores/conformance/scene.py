"""A scene: a ledger, and words for what happens to a delivery, so that a case says only what it is about."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from duly.core import keys
from duly.core.firing import fire
from duly.core.folding import GATHER_SECONDS
from duly.core.model import Begun, Channel, Claimed, Doubtful, NewReminder, Outcome, Scheduled
from duly.core.states import State, check
from duly.ports import Claim, ClaimOrder, Filters, Materialised, Settled, Store, Views
from duly.testing.builders import NAMESPACE, PROVIDERS, decision, folding, new_reminder, settlement, start
from tests.stores.ledgers import Ledger

__all__ = ["HOOKS", "LEASE_SECONDS", "WALKED", "Scene", "Watched", "delivery_id"]

HOOKS: Final = "hooks"
LEASE_SECONDS: Final = 60.0
EVERYTHING: Final = Filters(limit=1_000_000)


def delivery_id(key: str, channel: Channel = Channel.WEBHOOK, account: str = "acme") -> bytes:
    """The id of a reminder's only occurrence on a channel."""
    return keys.delivery_id(NAMESPACE, account, key, "once", channel)


#: Every arrow that was walked under watch, in this process.
WALKED: Final[set[tuple[State | None, State]]] = set()


class Watched:
    """A store under watch: after every call, whatever moved must have been allowed to."""

    def __init__(self, store: Store, views: Views) -> None:
        self._store, self._views = store, views
        self._seen: dict[str, State] = {}

    def __getattr__(self, name: str) -> Any:
        method: Callable[..., Awaitable[Any]] = getattr(self._store, name)

        async def watched(*arguments: Any, **named: Any) -> Any:
            try:
                return await method(*arguments, **named)
            finally:
                await self.look()

        return watched

    async def look_away(self) -> None:
        """Take where everything stands as given: several calls at once were not watched one by one."""
        self._seen = await self._states()

    async def _states(self) -> dict[str, State]:
        return {row["id"]: State(row["status"]) for row in await self._views.deliveries(EVERYTHING)}

    async def look(self) -> None:
        """Compare where everything stands with where it stood."""
        now = await self._states()
        for shown, state in now.items():
            before = self._seen.get(shown)
            if before is not state:
                check(before, state)
                WALKED.add((before, state))
        self._seen = now


class Scene:
    """An empty ledger at first; each word moves deliveries one step on."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.views = ledger.views
        self.store: Any = Watched(ledger.store, ledger.views)

    # --- intake ----------------------------------------------------------------------------------

    async def now(self) -> datetime:
        """The database's time."""
        return (await self.ledger.store.due(0)).now

    async def schedule(self, *keys_: str, due_in: float = -1.0, **more: Any) -> list[NewReminder]:
        """Write reminders that are due `due_in` seconds from now."""
        due = await self.now() + timedelta(seconds=due_in)
        rows = [new_reminder(key, due, **more) for key in keys_]
        for start_at in range(0, len(rows), 500):
            batch = rows[start_at : start_at + 500]
            assert await self.store.schedule(batch) == [Scheduled.CREATED] * len(batch)
        return rows

    async def tick(self, providers: Mapping[str, str] = PROVIDERS) -> Materialised:
        """Make deliveries of what is due."""
        batch = await self.store.due(2000)
        fired = [fire(row, batch.now, NAMESPACE, providers, row.zone and ZoneInfo(row.zone)) for row in batch.rows]
        written: Materialised = await self.store.materialise(fired)
        return written

    # --- from ready to a final state -------------------------------------------------------------

    async def ready(self, *keys_: str, **more: Any) -> list[bytes]:
        """Deliveries that wait for a worker."""
        rows = await self.schedule(*(keys_ or ("r",)), **more)
        await self.tick()
        return [delivery_id(row.key, channel, row.account) for row in rows for channel in row.channels]

    async def claim(
        self,
        limit: int = 100,
        *,
        provider: str = HOOKS,
        lane: str = "normal",
        after: int = 0,
        worker: str = "w1",
        lease_seconds: float = LEASE_SECONDS,
        suspicion: int = 0,
    ) -> Claim:
        """Lease ready rows."""
        order = ClaimOrder(provider, lane, limit, after, worker, lease_seconds, suspicion)
        claimed: Claim = await self.store.claim(order)
        return claimed

    async def leased(self, key: str = "r", *, worker: str = "w1", **more: Any) -> Claimed:
        """One delivery, claimed."""
        await self.ready(key, **more)
        return await self.claim_one(worker=worker)

    async def claim_one(self, **how: Any) -> Claimed:
        """The only ready row, claimed, also if it is a suspect."""
        claimed = await self.claim(**how)
        for provider, suspicion in await self.store.suspects([how.get("provider", HOOKS)]):
            suspects = await self.claim(**{**how, "provider": provider, "suspicion": suspicion})
            claimed.rows.extend(suspects.rows)
        assert len(claimed.rows) == 1, f"{len(claimed.rows)} rows were ready"
        return claimed.rows[0]

    async def claim_one_of(self, limit: int) -> Claimed:
        """The first of a claim of `limit` rows, where more are ready."""
        return (await self.claim(limit)).rows[0]

    async def fold(self, *rows: Claimed, worker: str = "w1") -> dict[bytes, bytes]:
        """Fold rows; the summary of each that was folded."""
        folded: dict[bytes, bytes] = await self.store.fold(worker, [folding(row) for row in rows])
        return folded

    async def folded(self, *keys_: str, **more: Any) -> list[bytes]:
        """Deliveries that are folded into one summary, and that summary, which is the last."""
        await self.ready(*(keys_ or ("r",)), **{"late": "summarize", **more})
        rows = {row.reminder_key: row for row in (await self.claim()).rows}
        folded = await self.fold(*rows.values())
        (summary,) = set(folded.values())
        return [*(rows[key].id for key in keys_ or ("r",)), summary]

    async def gathered(self) -> Claimed:
        """The only summary that gathers, claimed."""
        await self.ledger.pass_time(GATHER_SECONDS)
        await self.store.promote(10)
        return await self.claim_one()

    async def begin(self, *rows: Claimed, worker: str = "w1", **how: Any) -> Begun:
        """Begin rows with new bytes, unless they have some."""
        begun: Begun = await self.store.begin(HOOKS, worker, [start(row, **how) for row in rows])
        return begun

    async def sending(self, key: str = "r", *, worker: str = "w1", **more: Any) -> Claimed:
        """One delivery, begun as attempt 1."""
        row = await self.leased(key, worker=worker, **more)
        assert (await self.begin(row, worker=worker)).numbers == {row.id: 1}
        return row

    async def settle(self, row: Claimed, outcome: Outcome, number: int = 1, **how: Any) -> Settled:
        """Record one attempt's outcome, and what usually follows."""
        settled: Settled = await self.store.settle(
            HOOKS, [settlement(row, number, outcome, await self.now(), **how)], []
        )
        return settled

    async def again(self, outcome: Outcome = Outcome.REFUSED, number: int = 2) -> Claimed:
        """The only row that waits or is ready goes once more through a worker, as attempt `number`."""
        await self.store.promote(100)
        row = await self.claim_one()
        assert (await self.begin(row)).numbers == {row.id: number}
        await self.settle(row, outcome, number)
        return row

    async def waiting(self, key: str = "r", *, wait: timedelta = timedelta(), **more: Any) -> Claimed:
        """One delivery that was refused for now."""
        row = await self.sending(key, **more)
        await self.settle(row, Outcome.REFUSED, wait=wait)
        return row

    async def uncertain(self, key: str = "r", **more: Any) -> Claimed:
        """One delivery whose only attempt may have been accepted."""
        row = await self.sending(key, **more)
        await self.settle(row, Outcome.UNKNOWN)
        return row

    async def looked_at(self, lease_seconds: float = LEASE_SECONDS) -> Doubtful:
        """The only uncertain row whose time has come, under reconcile's fence."""
        _, rows = await self.store.doubtful([HOOKS], 100, lease_seconds)
        assert len(rows) == 1, f"{len(rows)} rows were doubtful"
        doubtful: Doubtful = rows[0]
        return doubtful

    async def decide(self, row: Claimed | Doubtful, origin: State, state: State, **more: Any) -> bool:
        """Decide about one row; whether it moved. A hold without a moment has its alarm in four hours."""
        if state is State.HELD:
            more.setdefault("next_at", await self.now() + timedelta(hours=4))
        moved: frozenset[bytes] = await self.store.decide("somebody", [decision(row, origin, state, **more)])
        assert moved <= {row.id}
        return row.id in moved

    async def held(self, key: str = "r", **more: Any) -> Doubtful:
        """One delivery that waits for an operator."""
        await self.uncertain(key, **more)
        row = await self.looked_at()
        assert await self.decide(row, State.UNCERTAIN, State.HELD, reason="no_way_to_ask")
        return row

    async def ready_in_doubt(self, key: str = "r", **more: Any) -> bytes:
        """One delivery that may have been accepted, and may be sent again under its key."""
        await self.uncertain(key, **more)
        row = await self.looked_at()
        assert await self.decide(row, State.UNCERTAIN, State.READY, reason="resend_same_key")
        return row.id

    async def waiting_in_doubt(self, key: str = "r", **more: Any) -> bytes:
        """One delivery whose first attempt may have been accepted, and whose second was refused for now."""
        delivery = await self.ready_in_doubt(key, **more)
        await self.again(Outcome.REFUSED)
        return delivery

    # --- looking ---------------------------------------------------------------------------------

    async def show(self, delivery: bytes) -> dict[str, Any]:
        """The delivery as `show` tells it."""
        return await self.views.show_delivery(delivery)

    async def state(self, delivery: bytes) -> str:
        """Where the delivery stands."""
        return str((await self.show(delivery))["status"])

    async def outcomes(self, delivery: bytes) -> list[str | None]:
        """What became of each attempt, in order."""
        return [attempt["outcome"] for attempt in (await self.show(delivery))["attempts"]]

    async def events(self, delivery: bytes) -> list[tuple[str, str | None, str | None, str, str]]:
        """The timeline beside the attempts: kind, from, to, actor, reason."""
        return [
            (event["kind"], event["from"], event["to"], event["actor"], event["reason"])
            for event in (await self.show(delivery))["events"]
        ]

    async def broken_invariants(self) -> Sequence[tuple[str, int]]:
        """Invariants that do not hold."""
        return [(name, count) for name, count in await self.views.invariants() if count]
