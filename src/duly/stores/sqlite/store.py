"""The ledger in one SQLite file, for one machine: ports.Store over a synchronous core.

Every method is one call of the core, given to `run`, and awaits nothing else. By default `run` is a
thread of the store's own: one for the writer, one for reads, each with its own connection, so that reads
never wait for a commit. A simulation passes a `run` that calls at once, and a clock of its own. Several
processes may open the same file; each writer waits for its turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

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
from duly.errors import StoreError
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
from duly.stores.bisect import write_all
from duly.stores.loader import load
from duly.stores.sqlite import (
    cancelling,
    capping,
    circuits,
    consent,
    deciding,
    folding,
    guarding,
    intake,
    looking,
    operating,
    recipients,
    revising,
    rezoning,
    sending,
    settling,
    templates,
    upkeep,
)
from duly.stores.sqlite.connect import Database
from duly.stores.sqlite.schema import SqliteSchema
from duly.stores.sqlite.threads import OwnThread
from duly.stores.sqlite.views import SqliteViews
from duly.stores.steps import migrations, require_current

__all__ = ["Run", "SqliteStore"]

T = TypeVar("T")


class Run(Protocol):
    """Decides where a call of the synchronous core runs, and when its result is there."""

    def __call__(self, call: Callable[[], T], /) -> Awaitable[T]:
        """The call's result, later."""
        ...


class SqliteStore:
    """ports.Store on a SQLite file. See `open`."""

    def __init__(self, writer: Database, reader: Database, write: Run, read: Run, let_go: ExitStack) -> None:
        self._writer, self._reader = writer, reader
        self._run_write, self._run_read = write, read
        self._let_go = let_go
        self._closed = False

    @classmethod
    async def open(
        cls, path: str | Path, *, run: Run | None = None, now: Callable[[], int] | None = None, durable: bool = True
    ) -> SqliteStore:
        """Open an existing ledger.

        `run` decides where the synchronous core runs (default: a thread each for writing and reading);
        `now` is the source of `db_now()`, in microseconds since 1970-01-01T00:00:00Z (default: the
        machine's). Not `durable`: for ledgers that are thrown away. Raises SchemaError if there is no such
        file, StoreError if it cannot be used.
        """
        statements = load("sqlite")
        with ExitStack() as stack:
            write, read = _runs(run, stack)
            writer = await write(partial(Database, path, statements, now, durable=durable))
            stack.callback(writer.close)
            require_current(migrations("sqlite"), await SqliteSchema(str(path)).applied(), f"database {path}")
            reader = await read(partial(Database, path, statements, now, durable=durable))
            stack.callback(reader.close)
            return cls(writer, reader, write, read, stack.pop_all())

    def views(self) -> SqliteViews:
        """The read-only views of the same ledger."""
        return SqliteViews(self._reader, self._read)

    # --- intake ----------------------------------------------------------------------------------

    async def namespace(self) -> str:
        """See Store.namespace."""
        return await self._read(partial(intake.namespace, self._reader))

    async def schedule(self, rows: Sequence[NewReminder]) -> list[Scheduled]:
        """See Store.schedule."""
        return await self._write(partial(intake.schedule, self._writer, rows))

    async def keep_templates(self, sources: Sequence[TemplateSource]) -> int:
        """See Store.keep_templates."""
        return await self._write(partial(templates.keep, self._writer, sources))

    async def template_sources(self, versions: Sequence[tuple[str, str]]) -> list[TemplateSource]:
        """See Store.template_sources."""
        return await self._read(partial(templates.sources, self._reader, versions))

    async def upgrade_template(self, actor: str, reason: str, upgrade: Upgrade) -> Upgraded:
        """See Store.upgrade_template."""
        return await self._write(partial(templates.upgrade, self._writer, actor, reason, upgrade))

    async def due(self, limit: int, after: Due | None = None) -> DueBatch:  # noqa: ARG002 - an update leaves nothing dead
        """See Store.due."""
        return await self._read(partial(intake.due, self._reader, limit))

    async def materialise(self, fired: Sequence[Fired]) -> Materialised:
        """See Store.materialise."""
        return await self._write(partial(intake.materialise, self._writer, fired))

    async def due_remain(self, within_seconds: float = 0.0) -> bool:
        """See Store.due_remain."""
        return await self._read(partial(intake.due_remain, self._reader, within_seconds))

    # --- sending ---------------------------------------------------------------------------------

    async def claim(self, order: ClaimOrder) -> Claim:
        """See Store.claim."""
        return await self._write(partial(sending.claim, self._writer, order))

    async def begin(self, provider: str, worker: str, rows: Sequence[Start]) -> Begun:
        """See Store.begin."""
        return await self._write(partial(sending.begin, self._writer, provider, worker, rows))

    async def abandon(self, worker: str, rows: Sequence[tuple[bytes, int]]) -> None:
        """See Store.abandon."""
        await self._write(partial(sending.abandon, self._writer, worker, rows))

    async def renew(self, worker: str, rows: Sequence[tuple[bytes, int]], lease_seconds: float) -> frozenset[bytes]:
        """See Store.renew."""
        return await self._write(partial(sending.renew, self._writer, worker, rows, lease_seconds))

    async def decide(self, actor: str, decisions: Sequence[Decision]) -> frozenset[bytes]:
        """See Store.decide."""
        return await self._write(partial(deciding.decide, self._writer, actor, decisions))

    async def settle(self, provider: str, rows: Sequence[Settlement], signals: Sequence[Signal]) -> Settled:
        """See Store.settle. One bad row costs no other its outcome: what is refused is cut in half and tried again."""

        async def commit(part: Sequence[Settlement]) -> Settled:
            return await self._write(partial(settling.settle, self._writer, provider, part, signals))

        return settling.added(await write_all(rows, commit, settling.scrubbed))

    # --- upkeep ----------------------------------------------------------------------------------

    async def fold(self, worker: str, rows: Sequence[Folding]) -> dict[bytes, bytes]:
        """See Store.fold."""
        return await self._write(partial(folding.fold, self._writer, worker, rows))

    async def share_fates(self, limit: int, actor: str) -> Counter[str]:
        """See Store.share_fates."""
        return await self._write(partial(folding.share_fates, self._writer, limit, actor))

    async def promote(self, limit: int) -> int:
        """See Store.promote."""
        return await self._write(partial(upkeep.promote, self._writer, limit))

    async def take_back(self, limit: int, actor: str, deaths_max: int = DEATHS_MAX) -> TakenBack:
        """See Store.take_back."""
        return await self._write(partial(upkeep.take_back, self._writer, limit, actor, deaths_max))

    async def forget_places(self, limit: int) -> int:
        """See Store.forget_places."""
        return await self._write(partial(capping.forget_places, self._writer, limit))

    async def suspects(self, providers: Sequence[str]) -> list[tuple[str, int]]:
        """See Store.suspects."""
        return await self._read(partial(upkeep.suspects, self._reader, providers))

    async def sweep(self, limit: int, actor: str) -> Swept:
        """See Store.sweep."""
        return await self._write(partial(upkeep.sweep, self._writer, limit, actor))

    async def probe_circuits(self, providers: Sequence[str]) -> int:
        """See Store.probe_circuits."""
        return await self._write(partial(circuits.probe_circuits, self._writer, providers))

    async def look_again(self, chosen: str, limit: int) -> int:
        """See Store.look_again."""
        return await self._write(partial(upkeep.look_again, self._writer, chosen, limit))

    async def next_step(self, providers: Sequence[str]) -> float | None:
        """See Store.next_step."""
        return await self._read(partial(upkeep.next_step, self._reader, providers))

    async def cancel(self, actor: str, reason: str, *, reminder: bytes | None, delivery: bytes | None) -> Cancelled:
        """See Store.cancel."""
        call = partial(cancelling.cancel, self._writer, actor, reason, reminder=reminder, delivery=delivery)
        return await self._write(call)

    async def standing(self, reminder: bytes, labels: Sequence[str]) -> Standing:
        """See Store.standing. Raises NotFound."""
        return await self._read(partial(revising.standing, self._reader, reminder, labels))

    async def revise(self, actor: str, reason: str, revision: Revision) -> bool:
        """See Store.revise."""
        return await self._write(partial(revising.revise, self._writer, actor, reason, revision))

    async def zoned(
        self, after: bytes, limit: int, version: str, recipients: Sequence[bytes] | None = None
    ) -> ZonedBatch:
        """See Store.zoned."""
        return await self._read(partial(rezoning.zoned, self._reader, after, limit, version, recipients))

    async def retime(self, actor: str, reason: str, rows: Sequence[Retiming]) -> frozenset[bytes]:
        """See Store.retime."""
        return await self._write(partial(rezoning.retime, self._writer, actor, reason, rows))

    async def pause_reminder(self, actor: str, reason: str, reminder: bytes) -> bool:
        """See Store.pause_reminder."""
        return await self._write(partial(rezoning.pause_reminder, self._writer, actor, reason, reminder))

    async def paused_reminder(self, reminder: bytes) -> tuple[datetime, Timing]:
        """See Store.paused_reminder. Raises NotFound."""
        return await self._read(partial(rezoning.paused_reminder, self._reader, reminder))

    async def resume_reminder(self, actor: str, reason: str, how: Resumption) -> bool:
        """See Store.resume_reminder."""
        return await self._write(partial(rezoning.resume_reminder, self._writer, actor, reason, how))

    async def requeue(self, actor: str, reason: str, deliveries: Sequence[bytes]) -> frozenset[bytes]:
        """See Store.requeue."""
        return await self._write(partial(operating.requeue, self._writer, actor, reason, deliveries))

    # --- reconcile -------------------------------------------------------------------------------

    async def doubtful(
        self, providers: Sequence[str], limit: int, lease_seconds: float
    ) -> tuple[datetime, list[Doubtful]]:
        """See Store.doubtful."""
        return await self._write(partial(looking.doubtful, self._writer, providers, limit, lease_seconds))

    async def looked(self, actor: str, rows: Sequence[Looked]) -> frozenset[bytes]:
        """See Store.looked."""
        return await self._write(partial(looking.looked, self._writer, actor, rows))

    async def held(self, delivery: bytes) -> tuple[datetime, Doubtful]:
        """See Store.held."""
        return await self._read(partial(looking.held, self._reader, delivery))

    # --- people ----------------------------------------------------------------------------------

    async def contact(self, identity: bytes) -> tuple[str, NewContact]:
        """See Store.contact. Raises NotFound."""
        return await self._read(partial(consent.contact, self._reader, identity))

    async def record_consent(self, actor: str, account: str, rows: Sequence[NewConsent]) -> list[Verdict]:
        """See Store.record_consent."""
        return await self._write(partial(consent.record, self._writer, actor, account, rows))

    async def upsert_recipients(self, actor: str, account: str, rows: Sequence[RecipientChange]) -> list[Upserted]:
        """See Store.upsert_recipients."""
        return await self._write(partial(recipients.upsert, self._writer, actor, account, rows))

    async def recipient_zones(self, account: str, refs: Sequence[str]) -> dict[str, str | None]:
        """See Store.recipient_zones."""
        return await self._read(partial(rezoning.recipient_zones, self._reader, account, refs))

    async def delete_recipient(self, actor: str, reason: str, recipient: bytes) -> bool:
        """See Store.delete_recipient. Raises NotFound."""
        return await self._write(partial(recipients.delete, self._writer, actor, reason, recipient))

    async def disable_channel(
        self, actor: str, reason: str, recipient: bytes, channel: Channel, *, disabled: bool = True
    ) -> bool:
        """See Store.disable_channel. Raises NotFound."""
        call = partial(recipients.disable, self._writer, actor, reason, recipient, channel, disabled=disabled)
        return await self._write(call)

    async def pause_account(self, actor: str, reason: str, account: str, *, paused: bool = True) -> bool:
        """See Store.pause_account. Raises NotFound."""
        return await self._write(partial(recipients.pause_account, self._writer, actor, reason, account, paused=paused))

    async def pause_template(self, actor: str, reason: str, template: str, *, paused: bool = True) -> bool:
        """See Store.pause_template."""
        call = partial(recipients.pause_template, self._writer, actor, reason, template, paused=paused)
        return await self._write(call)

    # --- restore ---------------------------------------------------------------------------------

    async def heartbeat(self, actor: str, after: datetime | None = None) -> Heartbeat:
        """See Store.heartbeat."""
        return await self._write(partial(guarding.heartbeat, self._writer, actor, after))

    async def open_guard(self, actor: str, why: str, since: datetime | None = None) -> Guard:
        """See Store.open_guard."""
        return await self._write(partial(guarding.open_guard, self._writer, actor, why, since))

    async def close_guard(self, actor: str, why: str, number: int | None = None) -> Guard:
        """See Store.close_guard."""
        return await self._write(partial(guarding.close_guard, self._writer, actor, why, number))

    # --- the end ---------------------------------------------------------------------------------

    async def close(self) -> None:
        """See Store.close. Calls that were started are finished first; closing twice is harmless."""
        if not self._closed:
            self._closed = True
            await self._run_read(_nothing)
            await self._run_write(self._let_go.close)

    async def _write(self, call: Callable[[], T]) -> T:
        self._refuse_if_closed()
        return await self._run_write(call)

    async def _read(self, call: Callable[[], T]) -> T:
        self._refuse_if_closed()
        return await self._run_read(call)

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise StoreError(f"database {self._writer.path}: it was closed here; open it again")


def _runs(run: Run | None, stack: ExitStack) -> tuple[Run, Run]:
    """Where to write and where to read."""
    if run is not None:
        return run, run
    write, read = OwnThread("duly-write"), OwnThread("duly-read")
    stack.callback(write.close)
    stack.callback(read.close)
    return write, read


def _nothing() -> None:
    """Runs when the calls before it have run."""
