"""`PostgresStore`: the ledger in PostgreSQL, version 13 or later. What each call does stands in its module.

READ COMMITTED throughout: rows are contended for by row locks and compare-and-set, and a statement that
waited looks again. Claims have a connection of their own, so that one can run ahead of the sender; all
other calls share a small set. No call repeats anything: after StoreUnavailable the caller does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from duly.core.consent import Verdict
from duly.core.folding import Folding
from duly.core.limits import DEATHS_MAX
from duly.core.model import (
    Begun,
    Channel,
    Decision,
    Doubtful,
    Due,
    Fired,
    Guard,
    Looked,
    NewContact,
    NewReminder,
    Scheduled,
    Settlement,
    Signal,
    Start,
    TemplateSource,
)
from duly.core.revising import Standing
from duly.core.rezoning import Retiming
from duly.core.upcoming import Resumption, Timing
from duly.errors import SchemaError
from duly.ports import (
    Cancelled,
    Claim,
    ClaimOrder,
    DueBatch,
    Heartbeat,
    Materialised,
    NewConsent,
    RecipientChange,
    Revision,
    Settled,
    Swept,
    TakenBack,
    Upgrade,
    Upgraded,
    Upserted,
    ZonedBatch,
)
from duly.stores.loader import load
from duly.stores.postgres import (
    capping,
    changing,
    claims,
    consent,
    folding,
    guarding,
    intake,
    recipients,
    reconciling,
    revising,
    rezoning,
    settling,
    templates,
    ticks,
    upkeep,
)
from duly.stores.postgres.connect import Connections, Losses, Target
from duly.stores.postgres.schema import PostgresSchema
from duly.stores.postgres.views import PostgresViews
from duly.stores.steps import migrations, require_current

__all__ = ["PostgresStore"]


class PostgresStore:
    """`ports.Store` over PostgreSQL. Open it with `open`."""

    def __init__(self, target: Target, pool_size: int) -> None:
        statements = load("postgres")
        losses = Losses()
        self._shared = Connections(target, statements, pool_size, losses)
        self._claims = Connections(target, statements, 1, losses)
        self._accounts = intake.Accounts()

    @classmethod
    async def open(
        cls, url: str, *, pool_size: int = 8, connect_timeout: float = 5, statement_timeout_seconds: float = 30
    ) -> PostgresStore:
        """Check the schema and return the store; connections are made as they are needed. Times in seconds.

        Raises SchemaError if migrations are pending, StoreError or StoreUnavailable if nobody lets us in.
        """
        target = Target.of(url, connect_timeout, statement_timeout_seconds)
        schema = PostgresSchema(url)
        require_current(migrations(schema.dialect), await schema.applied(), target.place)
        return cls(target, pool_size)

    def views(self) -> PostgresViews:
        """The read-only views, on the same connections."""
        return PostgresViews(self._shared)

    async def namespace(self) -> str:
        """See Store."""
        async with self._shared.transaction() as tx:
            found = await tx.rows("namespace")
        if not found:
            raise SchemaError(f"{self._shared.target.place}: it has no namespace yet; run `duly migrate apply`")
        return str(found[0][0])

    async def schedule(self, rows: Sequence[NewReminder]) -> list[Scheduled]:
        """See Store."""
        return await intake.schedule(self._shared, self._accounts, rows)

    async def keep_templates(self, sources: Sequence[TemplateSource]) -> int:
        """See Store."""
        return await templates.keep(self._shared, sources)

    async def template_sources(self, versions: Sequence[tuple[str, str]]) -> list[TemplateSource]:
        """See Store."""
        return await templates.sources(self._shared, versions)

    async def upgrade_template(self, actor: str, reason: str, upgrade: Upgrade) -> Upgraded:
        """See Store."""
        return await templates.upgrade(self._shared, actor, reason, upgrade)

    async def due(self, limit: int, after: Due | None = None) -> DueBatch:
        """See Store."""
        return await ticks.due(self._shared, limit, after)

    async def materialise(self, fired: Sequence[Fired]) -> Materialised:
        """See Store."""
        return await ticks.materialise(self._shared, fired)

    async def due_remain(self, within_seconds: float = 0.0) -> bool:
        """See Store."""
        return await ticks.due_remain(self._shared, within_seconds)

    async def claim(self, order: ClaimOrder) -> Claim:
        """See Store."""
        return await claims.claim(self._claims, order)

    async def begin(self, provider: str, worker: str, rows: Sequence[Start]) -> Begun:
        """See Store."""
        return await claims.begin(self._shared, provider, worker, rows)

    async def abandon(self, worker: str, rows: Sequence[tuple[bytes, int]]) -> None:
        """See Store."""
        await claims.abandon(self._shared, worker, rows)

    async def decide(self, actor: str, decisions: Sequence[Decision]) -> frozenset[bytes]:
        """See Store."""
        return await settling.decide(self._shared, actor, decisions)

    async def settle(self, provider: str, rows: Sequence[Settlement], signals: Sequence[Signal]) -> Settled:
        """See Store."""
        return await settling.settle(self._shared, provider, rows, signals)

    async def fold(self, worker: str, rows: Sequence[Folding]) -> dict[bytes, bytes]:
        """See Store."""
        return await folding.fold(self._shared, worker, rows)

    async def share_fates(self, limit: int, actor: str) -> Counter[str]:
        """See Store."""
        return await folding.share_fates(self._shared, limit, actor)

    async def promote(self, limit: int) -> int:
        """See Store."""
        return await upkeep.promote(self._shared, limit)

    async def renew(self, worker: str, rows: Sequence[tuple[bytes, int]], lease_seconds: float) -> frozenset[bytes]:
        """See Store."""
        return await claims.renew(self._shared, worker, rows, lease_seconds)

    async def take_back(self, limit: int, actor: str, deaths_max: int = DEATHS_MAX) -> TakenBack:
        """See Store."""
        return await upkeep.take_back(self._shared, limit, actor, deaths_max)

    async def forget_places(self, limit: int) -> int:
        """See Store."""
        return await capping.forget_places(self._shared, limit)

    async def suspects(self, providers: Sequence[str]) -> list[tuple[str, int]]:
        """See Store."""
        return await upkeep.suspects(self._shared, providers)

    async def sweep(self, limit: int, actor: str) -> Swept:
        """See Store."""
        return await upkeep.sweep(self._shared, limit, actor)

    async def doubtful(
        self, providers: Sequence[str], limit: int, lease_seconds: float
    ) -> tuple[datetime, list[Doubtful]]:
        """See Store."""
        return await reconciling.doubtful(self._shared, providers, limit, lease_seconds)

    async def looked(self, actor: str, rows: Sequence[Looked]) -> frozenset[bytes]:
        """See Store."""
        return await reconciling.looked(self._shared, actor, rows)

    async def held(self, delivery: bytes) -> tuple[datetime, Doubtful]:
        """See Store. Raises NotFound."""
        return await reconciling.held(self._shared, delivery)

    async def probe_circuits(self, providers: Sequence[str]) -> int:
        """See Store."""
        return await upkeep.probe_circuits(self._shared, providers)

    async def look_again(self, chosen: str, limit: int) -> int:
        """See Store."""
        return await upkeep.look_again(self._shared, chosen, limit)

    async def next_step(self, providers: Sequence[str]) -> float | None:
        """See Store."""
        return await upkeep.next_step(self._shared, providers)

    async def cancel(self, actor: str, reason: str, *, reminder: bytes | None, delivery: bytes | None) -> Cancelled:
        """See Store. Raises NotFound."""
        return await upkeep.cancel(self._shared, actor, reason, reminder, delivery)

    async def standing(self, reminder: bytes, labels: Sequence[str]) -> Standing:
        """See Store. Raises NotFound."""
        return await revising.standing(self._shared, reminder, labels)

    async def revise(self, actor: str, reason: str, revision: Revision) -> bool:
        """See Store."""
        return await revising.revise(self._shared, actor, reason, revision)

    async def zoned(
        self, after: bytes, limit: int, version: str, recipients: Sequence[bytes] | None = None
    ) -> ZonedBatch:
        """See Store."""
        return await rezoning.zoned(self._shared, after, limit, version, recipients)

    async def retime(self, actor: str, reason: str, rows: Sequence[Retiming]) -> frozenset[bytes]:
        """See Store."""
        return await rezoning.retime(self._shared, actor, reason, rows)

    async def pause_reminder(self, actor: str, reason: str, reminder: bytes) -> bool:
        """See Store."""
        return await rezoning.pause_reminder(self._shared, actor, reason, reminder)

    async def paused_reminder(self, reminder: bytes) -> tuple[datetime, Timing]:
        """See Store. Raises NotFound."""
        return await rezoning.paused_reminder(self._shared, reminder)

    async def resume_reminder(self, actor: str, reason: str, how: Resumption) -> bool:
        """See Store."""
        return await rezoning.resume_reminder(self._shared, actor, reason, how)

    async def requeue(self, actor: str, reason: str, deliveries: Sequence[bytes]) -> frozenset[bytes]:
        """See Store."""
        return await changing.requeue(self._shared, actor, reason, deliveries)

    async def contact(self, identity: bytes) -> tuple[str, NewContact]:
        """See Store. Raises NotFound."""
        return await consent.contact(self._shared, identity)

    async def record_consent(self, actor: str, account: str, rows: Sequence[NewConsent]) -> list[Verdict]:
        """See Store."""
        return await consent.record(self._shared, actor, account, rows)

    async def upsert_recipients(self, actor: str, account: str, rows: Sequence[RecipientChange]) -> list[Upserted]:
        """See Store."""
        return await recipients.upsert(self._shared, actor, account, rows)

    async def recipient_zones(self, account: str, refs: Sequence[str]) -> dict[str, str | None]:
        """See Store."""
        return await rezoning.recipient_zones(self._shared, account, refs)

    async def delete_recipient(self, actor: str, reason: str, recipient: bytes) -> bool:
        """See Store. Raises NotFound."""
        return await recipients.delete(self._shared, actor, reason, recipient)

    async def disable_channel(
        self, actor: str, reason: str, recipient: bytes, channel: Channel, *, disabled: bool = True
    ) -> bool:
        """See Store. Raises NotFound."""
        return await recipients.disable(self._shared, actor, reason, recipient, channel, disabled=disabled)

    async def pause_account(self, actor: str, reason: str, account: str, *, paused: bool = True) -> bool:
        """See Store. Raises NotFound."""
        return await recipients.pause_account(self._shared, actor, reason, account, paused=paused)

    async def pause_template(self, actor: str, reason: str, template: str, *, paused: bool = True) -> bool:
        """See Store."""
        return await recipients.pause_template(self._shared, actor, reason, template, paused=paused)

    async def heartbeat(self, actor: str, after: datetime | None = None) -> Heartbeat:
        """See Store."""
        return await guarding.heartbeat(self._shared, actor, after)

    async def open_guard(self, actor: str, why: str, since: datetime | None = None) -> Guard:
        """See Store. Raises InputError."""
        return await guarding.open_guard(self._shared, actor, why, since)

    async def close_guard(self, actor: str, why: str, number: int | None = None) -> Guard:
        """See Store. Raises InputError."""
        return await guarding.close_guard(self._shared, actor, why, number)

    async def close(self) -> None:
        """See Store."""
        await self._claims.close()
        await self._shared.close()
