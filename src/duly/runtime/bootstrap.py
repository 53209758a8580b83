"""Bootstrap: the one place that picks adapters. From a configuration to a store, or to a whole plant.

Everything that can be wrong with a configuration's meaning (a secret that is not there, a template
that does not compile, a namespace that is another installation's) is found here, before anything runs.
"""

from __future__ import annotations

import gc
import hashlib
import os
import socket
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final

from duly.content import LATE_SUMMARY, Template, TemplateSet
from duly.core import keys
from duly.core.caps import Cap
from duly.core.limits import Limits
from duly.core.model import HoldPolicy, OnDoubt
from duly.core.quiet_hours import Window, written
from duly.core.unsubscribe import SECRET_BYTES_MIN, Links
from duly.errors import ConfigError, SchemaError
from duly.intake import Purposes
from duly.intake.quiet import QuietHours
from duly.ports import Provider, Store, Transport, Views
from duly.runtime.clock import SystemClock, SystemDice
from duly.runtime.config import Config, Secret, Smtp, Webhook
from duly.runtime.config import Template as ConfiguredTemplate
from duly.runtime.versions import PinnedTemplates
from duly.runtime.worker import Plant

__all__ = [
    "ConfiguredPolicies",
    "account_zones",
    "channels",
    "chosen_hours",
    "endpoint_names",
    "limits",
    "links",
    "open_plant",
    "open_store",
    "open_views",
    "provider",
    "purposes",
    "templates",
    "transport",
    "unsubscribe_secrets",
    "worker_name",
]

#: Look-ups under way at once, for each provider of each worker.
LOOKS_MAX: Final = 64
LOOKS_PER_HOST_MAX: Final = 16

#: Collections of the youngest generation cost most; a worker makes little garbage that is in cycles.
GC_THRESHOLDS: Final = (50_000, 20, 50)


class ConfiguredPolicies:
    """ports.Policies from the configuration."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._windows = {name: account.windows for name, account in config.accounts.items()}

    def on_doubt(self, account: str) -> OnDoubt:
        """The account's policy for the last rung: hold unless it chose otherwise."""
        chosen = self._config.accounts.get(account)
        return chosen.on_doubt if chosen else OnDoubt.HOLD

    def hold(self, account: str) -> HoldPolicy:
        """How long the account's holds last, and what follows."""
        chosen = self._config.accounts.get(account)
        return HoldPolicy(chosen.hold_alarm, chosen.hold_for, OnDoubt(chosen.hold_then)) if chosen else HoldPolicy()

    def quiet(self, account: str, purpose: str) -> tuple[Window, ...]:
        """The account's quiet hours, its own or a region's, where this purpose keeps them."""
        chosen = self._config.accounts.get(account)
        return self._windows[account] if chosen and chosen.keeps_quiet(purpose) else ()

    def cap(self, account: str, purpose: str) -> Cap | None:
        """The account's cap for this purpose."""
        chosen = self._config.accounts.get(account)
        return chosen.caps.get(purpose) if chosen else None


def worker_name() -> str:
    """A name for this incarnation: never used twice, whatever the host or the process id."""
    return f"{socket.gethostname()[:40]}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


def channels(config: Config) -> dict[str, str]:
    """The provider's name for each channel."""
    return {str(provider.channel): name for name, provider in config.providers.items()}


def account_zones(config: Config) -> dict[str, str | None]:
    """The zone that each account has chosen."""
    return {name: account.zone for name, account in config.accounts.items()}


def endpoint_names(config: Config, namespace: str) -> dict[bytes, str]:
    """The configured endpoints' names, by the ids that the ledger knows them by."""
    return {keys.endpoint_id(namespace, one.url): name for name, one in config.endpoints.items()}


def chosen_hours(config: Config) -> str:
    """What stands for the quiet hours and caps of all accounts: it differs where one of these, or a zone, does."""
    chosen = [
        (name, one.zone, [written(window) for window in one.windows], one.quiet_purposes, sorted(one.caps.items()))
        for name, one in sorted(config.accounts.items())
        if one.windows or one.caps
    ]
    return hashlib.sha256(repr(chosen).encode()).hexdigest()


def purposes(config: Config) -> Purposes:
    """The purposes that the configuration names: in an account's caps and quiet hours, and for mail of all."""
    return Purposes(
        {name: (*one.caps, *(one.quiet_purposes or ())) for name, one in config.accounts.items()},
        config.unsubscribe.purposes if config.unsubscribe else (),
    )


def limits(config: Config) -> dict[str, Limits]:
    """The limits of each provider, by its name."""
    return {name: Limits(attempts_max=provider.max_attempts) for name, provider in config.providers.items()}


def templates(config: Config) -> TemplateSet:
    """The compiled templates, with that of summaries. Raises ConfigError, naming template and line."""
    configured = {name: _template(name, one) for name, one in config.templates.items()}
    return TemplateSet({LATE_SUMMARY.name: LATE_SUMMARY, **configured})


def _template(name: str, one: ConfiguredTemplate) -> Template:
    return Template(name, one.subject, one.text, one.html, one.sms_segments_max, one.sms_to_gsm)


def links(config: Config, namespace: str) -> Links | None:
    """What makes links to unsubscribe, if that is configured. Raises ConfigError for a secret that is too short."""
    one = config.unsubscribe
    if one is None:
        return None
    return Links(one.url, unsubscribe_secrets(config)[0], frozenset(one.purposes), namespace)


def unsubscribe_secrets(config: Config) -> list[bytes]:
    """What the links to unsubscribe are read by, the newest first; empty if there are none. Raises ConfigError."""
    return [_long_enough(secret) for secret in config.unsubscribe.secrets] if config.unsubscribe else []


def _long_enough(secret: Secret) -> bytes:
    raw = secret.reveal().encode()
    if len(raw) < SECRET_BYTES_MIN:
        raise ConfigError(
            f"{secret.key}: it has {len(raw)} bytes, and {SECRET_BYTES_MIN} are the least; make a new one"
        )
    return raw


@asynccontextmanager
async def open_store(config: Config) -> AsyncIterator[Store]:
    """The ledger, with its schema and namespace checked."""
    store = await _open(config)
    try:
        await _check_namespace(store, config)
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def open_views(config: Config) -> AsyncIterator[Views]:
    """The read-only views of the ledger."""
    async with open_store(config) as store:
        yield store.views()


@asynccontextmanager
async def open_plant(config: Config, *, freeze_garbage: bool = True) -> AsyncIterator[Plant]:
    """Everything that a worker runs on."""
    if not config.providers:
        raise ConfigError("no provider is configured: add a [providers.NAME] table to duly.toml")
    clock = SystemClock()
    compiled, policies = templates(config), ConfiguredPolicies(config)
    async with open_store(config) as store:
        namespace, pinned = await store.namespace(), PinnedTemplates(store, compiled)
        plant = Plant(
            store=store,
            namespace=namespace,
            providers={name: provider(name, config, namespace) for name in config.providers},
            transports={name: transport(one, clock) for name, one in config.providers.items()},
            lookers={name: _looker(one, clock) for name, one in config.providers.items() if isinstance(one, Webhook)},
            limits=limits(config),
            templates=pinned,
            policies=policies,
            clock=clock,
            dice=SystemDice(),
            lease_seconds=config.lease_seconds,
            quiet=QuietHours(policies, account_zones(config)),
            endpoint_names=endpoint_names(config, namespace),
            chosen=chosen_hours(config),
            learn=pinned.learn,
        )
        if freeze_garbage:
            gc.freeze()
            gc.set_threshold(*GC_THRESHOLDS)
        try:
            yield plant
        finally:
            for one in (*plant.transports.values(), *plant.lookers.values()):
                await one.close()


async def _open(config: Config) -> Any:
    """Adapters are imported only where they are used: a driver that is not installed is not needed."""
    if config.database.path is not None:
        from duly.stores.sqlite import SqliteStore

        return await SqliteStore.open(config.database.path)
    try:
        from duly.stores.postgres import PostgresStore
    except ImportError:
        raise ConfigError("PostgreSQL needs its driver: pip install 'duly[postgres]'") from None
    return await PostgresStore.open(config.database.reveal())


async def _check_namespace(store: Store, config: Config) -> None:
    stored = await store.namespace()
    if config.namespace is not None and config.namespace != stored:
        raise SchemaError(
            "namespace: this database belongs to another installation; use its own duly.toml, or another database"
        )


# --- providers -----------------------------------------------------------------------------------


def provider(name: str, config: Config, namespace: str | None) -> Provider:
    """A configured provider. Without a namespace its mail has no links to unsubscribe. Raises ConfigError."""
    one = config.providers[name]
    if isinstance(one, Webhook):
        return _webhook(name, one, config)
    return _smtp(name, one, links(config, namespace) if namespace else None)


def _webhook(name: str, one: Webhook, config: Config) -> Provider:
    from duly.providers.webhook import WebhookProvider

    return WebhookProvider(
        name,
        [_signing_key(secret) for secret in one.secrets],
        timeout_seconds=one.timeout_seconds,
        rate_per_second=one.rate_per_second,
        deduplicates=one.deduplicates,
        key_window=one.key_window,
        lookup_url=one.lookup_url or "",
        settling=timedelta(seconds=one.settling_seconds),
        endpoints=_endpoints(config),
    )


def _endpoints(config: Config) -> Mapping[str, Any]:
    from duly.providers.webhook import Endpoint

    return {
        one.url: Endpoint(
            name,
            None if one.secrets is None else [_signing_key(secret) for secret in one.secrets],
            one.rate_per_second,
            one.deduplicates,
            one.key_window,
            one.lookup_url,
            None if one.settling_seconds is None else timedelta(seconds=one.settling_seconds),
        )
        for name, one in config.endpoints.items()
    }


def _signing_key(secret: Any) -> Any:
    from duly.providers.standard_webhooks import parse_secret

    return parse_secret(secret.reveal(), secret.key)


def _smtp(name: str, one: Smtp, offered: Links | None) -> Provider:
    from duly.providers.smtp import SmtpProvider

    return SmtpProvider(name, one.sender, one.timeout_seconds, one.rate_per_second, offered)


# --- transports ----------------------------------------------------------------------------------


def transport(one: Webhook | Smtp, clock: SystemClock) -> Transport:
    """What sends for a configured provider."""
    return _http(one, clock) if isinstance(one, Webhook) else _mail(one, clock)


def _http(one: Webhook, clock: SystemClock) -> Transport:
    from duly.transports.http import HttpTransport

    return HttpTransport(
        reading=clock.reading,
        timeout_seconds=one.timeout_seconds,
        capacity=one.concurrency,
        per_host=one.concurrency_per_host,
        allow_private_networks=one.allow_private_networks,
    )


def _looker(one: Webhook, clock: SystemClock) -> Transport:
    """A transport for look-ups alone, so that they take no slot from a send."""
    return _http(one.model_copy(update={"concurrency": LOOKS_MAX, "concurrency_per_host": LOOKS_PER_HOST_MAX}), clock)


def _mail(one: Smtp, clock: SystemClock) -> Transport:
    from duly.transports.smtp import SmtpTransport

    server = one.server
    return SmtpTransport(
        reading=clock.reading,
        host=server.host,
        port=server.port,
        security=server.security,
        username=server.username,
        password=one.password.reveal() if one.password else None,
        timeout_seconds=one.timeout_seconds,
        capacity=one.concurrency,
    )
