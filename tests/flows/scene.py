"""A scene for the flows: a real ledger on a temporary file, time that stands still, and a transport that sends nothing.

Every word of it drives a coroutine to its end without an event loop, so a flow that waited for anything but
its ports would fail every test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, cast

from duly.content import Template, TemplateSet
from duly.core import keys
from duly.core.caps import Cap
from duly.core.limits import Limits
from duly.core.model import Channel, HoldPolicy, NewReminder, OnDoubt
from duly.core.quiet_hours import Window
from duly.flows.claim import Cursors, claim
from duly.flows.deliver import send_some, settle_some
from duly.flows.reconcile import Desk, reconcile
from duly.flows.route import Route
from duly.flows.tick import tick
from duly.flows.upkeep import keep_up
from duly.intake import zones
from duly.ports import Batch, Clock, HttpRequest, Provider, Store
from duly.providers.standard_webhooks import parse_secret
from duly.providers.webhook import WebhookProvider
from duly.stores.sqlite import SqliteStore
from duly.testing.builders import NAMESPACE, PROVIDERS, new_reminder
from duly.testing.clock import SimulatedClock, SimulatedDice
from duly.testing.driving import at_once, drive
from duly.testing.transport import FakeTransport
from duly.testing.unsteady import UnsteadyStore
from tests.stores.ledgers import create_sqlite, raw

__all__ = ["HOOKS", "LEASE_SECONDS", "SECRET", "TEMPLATES", "WORKER", "Scene", "delivery_id", "provider", "scene_in"]

HOOKS: Final = "hooks"
WORKER: Final = "w1"
LEASE_SECONDS: Final = 60.0
SECRET: Final = "whsec_" + "QUJD" * 11
TEMPLATES: Final = TemplateSet(
    {"note": Template("note", "", "hello {{ recipient.name }}"), "unit": Template("unit", "", "unit {{ data.unit }}")}
)


def provider(**settings: Any) -> WebhookProvider:
    """A webhook provider whose receivers drop repeats, unless told otherwise."""
    return WebhookProvider(HOOKS, [parse_secret(SECRET, "secret")], **{"deduplicates": True, **settings})


def delivery_id(key: str, account: str = "acme") -> bytes:
    """The id of a reminder's only occurrence as a webhook."""
    return keys.delivery_id(NAMESPACE, account, key, "once", Channel.WEBHOOK)


class ClaimsNow:
    """ports.Claims that run no batch ahead: a claim is made when it is asked for. `taken` are the limits asked for."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.taken: list[int] = []
        self._store, self._clock, self._cursors = store, clock, Cursors()

    async def take(self, limit: int, max_wait: float) -> Batch | None:
        """See Claims.take."""
        self.taken.append(limit)
        batch = await claim(self._store, self._clock, self._cursors, HOOKS, limit, WORKER, LEASE_SECONDS)
        if batch is None:
            await self._clock.sleep(max_wait)
        return batch


class Chosen:
    """ports.Policies where every account has chosen the same."""

    def __init__(self, policy: OnDoubt, hold: HoldPolicy | None = None) -> None:
        self._policy, self._hold = policy, hold or HoldPolicy()

    def on_doubt(self, account: str) -> OnDoubt:  # noqa: ARG002 - the port's signature
        """See Policies.on_doubt."""
        return self._policy

    def hold(self, account: str) -> HoldPolicy:  # noqa: ARG002 - the port's signature
        """See Policies.hold."""
        return self._hold

    def quiet(self, account: str, purpose: str) -> tuple[Window, ...]:  # noqa: ARG002 - the port's signature
        """See Policies.quiet."""
        return ()

    def cap(self, account: str, purpose: str) -> Cap | None:  # noqa: ARG002 - the port's signature
        """See Policies.cap."""
        return None


class Scene:
    """An empty ledger, and one provider's route over it."""

    def __init__(self, path: Path, capacity: int, per_host: int, settings: Mapping[str, Any]) -> None:
        self.path = path
        self.clock = SimulatedClock()
        self.unsteady = UnsteadyStore(drive(SqliteStore.open(path, run=at_once, now=self.clock.microseconds)))
        self.store = cast("Store", self.unsteady)
        self.transport = FakeTransport(self.clock, capacity=capacity, per_host=per_host)
        self.looker = FakeTransport(self.clock, capacity=8, per_host=4)
        self.claims = ClaimsNow(self.store, self.clock)
        self.route = self._route(provider(**settings))

    def _route(self, hooks: Provider) -> Route:
        return Route(
            provider=hooks,
            transport=self.transport,
            templates=TEMPLATES,
            claims=self.claims,
            store=self.store,
            clock=self.clock,
            dice=SimulatedDice(),
            worker=WORKER,
            lease_seconds=LEASE_SECONDS,
            limits=Limits(),
            tally=Counter(),
        )

    # --- what happens ----------------------------------------------------------------------------

    def schedule(self, *names: str, due_in: float = -1.0, url: str | None = None, **more: Any) -> list[NewReminder]:
        """Write reminders that are due `due_in` seconds from now; `url` is where they go."""
        if url is not None:
            more["addresses"] = {Channel.WEBHOOK: url}
        due = self.clock.now() + timedelta(seconds=due_in)
        rows = [new_reminder(name, due, **more) for name in names]
        drive(self.store.schedule(rows))
        return rows

    def ready(self, *names: str, **more: Any) -> list[bytes]:
        """Deliveries that wait for a worker."""
        rows = self.schedule(*names, **more)
        drive(tick(self.store, NAMESPACE, PROVIDERS, zones.known))
        return [delivery_id(row.key, row.account) for row in rows]

    def send(self, max_wait: float = 0.25) -> int:
        """One round of sending."""
        return drive(send_some(self.route, max_wait))

    def settle(self, max_wait: float = 0.25) -> int:
        """One round of settling."""
        return drive(settle_some(self.route, max_wait))

    def deliver(self) -> None:
        """Send what is ready, and settle what was answered, once."""
        self.send()
        self.settle()

    def reconcile(self, policy: OnDoubt = OnDoubt.HOLD, jitter: float = 0.5) -> Counter[str]:
        """One round of reconcile, where every account has chosen this policy."""
        return drive(reconcile(self.desk(policy, jitter=jitter)))

    def desk(self, policy: OnDoubt = OnDoubt.HOLD, hold: HoldPolicy | None = None, jitter: float = 0.5) -> Desk:
        """What reconcile works with."""
        return Desk(
            self.store,
            {HOOKS: self.route.provider},
            {HOOKS: self.looker},
            {HOOKS: self.route.limits},
            Chosen(policy, hold),
            self.clock,
            SimulatedDice(jitter),
            "reconciler",
            LEASE_SECONDS,
        )

    def keep_up(self) -> Counter[str]:
        """One round of upkeep."""
        return drive(keep_up(self.store, "upkeeper"))

    def change(self, statement: str) -> None:
        """What some other program does to the ledger meanwhile."""
        with raw(self.path) as database:
            database.execute(statement)

    # --- what is so ------------------------------------------------------------------------------

    def show(self, delivery: bytes) -> dict[str, Any]:
        """The delivery as `show` tells it."""
        return drive(self.store.views().show_delivery(delivery))

    def stands(self, delivery: bytes) -> tuple[str, str | None]:
        """The delivery's state and reason."""
        shown = self.show(delivery)
        return shown["status"], shown["reason"]

    def outcomes(self, delivery: bytes) -> list[str | None]:
        """What became of each attempt, in order."""
        return [attempt["outcome"] for attempt in self.show(delivery)["attempts"]]

    def value(self, query: str) -> Any:
        """The first column of a query's first row."""
        with raw(self.path) as database:
            return database.execute(query).fetchone()[0]

    def moment(self, shown: str) -> datetime:
        """A moment as views show it."""
        return datetime.fromisoformat(shown)

    def keys_sent(self) -> list[str]:
        """The `webhook-id` of each request that left, in order."""
        return [dict(request.headers)["webhook-id"] for request in self.requests()]

    def requests(self) -> Sequence[HttpRequest]:
        """The requests that left, in order."""
        return [request.content for request in self.transport.left if isinstance(request.content, HttpRequest)]

    def broken_invariants(self) -> list[str]:
        """Invariants of the ledger that do not hold."""
        return [name for name, count in drive(self.store.views().invariants()) if count]


@contextmanager
def scene_in(folder: Path, *, capacity: int = 512, per_host: int = 512, **settings: Any) -> Iterator[Scene]:
    """A scene on a file in a folder; `settings` are the provider's. Whatever happened, the ledger must be sound."""
    path = folder / "ledger.db"
    create_sqlite(path)
    scene = Scene(path, capacity, per_host, settings)
    yield scene
    scene.unsteady.away = False
    assert scene.broken_invariants() == []
    drive(scene.store.close())
