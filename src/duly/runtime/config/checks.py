"""What single values cannot tell: the checks between tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from duly.core.consent import KNOWN_PURPOSES
from duly.core.limits import LEASE_MARGIN_SECONDS
from duly.core.purposes import meant
from duly.runtime.config.layers import Key
from duly.runtime.config.model import Config, Smtp
from duly.runtime.config.values import Secret

__all__ = ["conflicts", "warnings"]

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


def conflicts(config: Config) -> Iterator[tuple[Key, str]]:
    """Keys that cannot stand together, and why."""
    yield from _lease_too_short(config)
    yield from _channel_served_twice(config)
    yield from _endpoint_named_twice(config)
    yield from _alarm_after_the_end(config)
    yield from _hours_given_twice(config)
    yield from _hours_without_a_zone(config)


def _lease_too_short(config: Config) -> Iterator[tuple[Key, str]]:
    if not config.providers:
        return
    name, longest = max(((name, p.timeout_seconds) for name, p in config.providers.items()), key=lambda pair: pair[1])
    needed = longest + LEASE_MARGIN_SECONDS
    if config.lease_seconds <= needed:
        reason = f"which is providers.{name}.timeout_seconds ({longest:g}) plus a margin of {LEASE_MARGIN_SECONDS:g}"
        yield (
            ("lease_seconds",),
            f"{config.lease_seconds:g} is too short: it must be more than {needed:g}, {reason}",
        )


def _channel_served_twice(config: Config) -> Iterator[tuple[Key, str]]:
    first: dict[str, str] = {}
    for name, provider in config.providers.items():
        earlier = first.setdefault(provider.channel, name)
        if earlier != name:
            rule = "this version takes one provider for each channel, so remove one of them"
            yield ("providers", name), f"serves channel {provider.channel}, as providers.{earlier} does; {rule}"


def _endpoint_named_twice(config: Config) -> Iterator[tuple[Key, str]]:
    first: dict[str, str] = {}
    for name, endpoint in config.endpoints.items():
        earlier = first.setdefault(endpoint.url, name)
        if earlier != name:
            yield ("endpoints", name, "url"), f"the same URL as endpoints.{earlier}; an endpoint has one table"


def _alarm_after_the_end(config: Config) -> Iterator[tuple[Key, str]]:
    for name, account in config.accounts.items():
        if account.hold_alarm >= account.hold_for:
            yield ("accounts", name, "hold_alarm"), "must be shorter than hold_for of this account"


def _hours_given_twice(config: Config) -> Iterator[tuple[Key, str]]:
    for name, account in config.accounts.items():
        if account.quiet_hours and account.quiet_region:
            yield ("accounts", name, "quiet_region"), "quiet_hours says when it is quiet already; write one of them"


def _hours_without_a_zone(config: Config) -> Iterator[tuple[Key, str]]:
    for name, account in config.accounts.items():
        if account.zone is None and (account.quiet_hours or account.quiet_region):
            reason = "quiet hours need it, for recipients whose own zone is not known"
            yield ("accounts", name, "zone"), f'missing; {reason}; write one like "America/New_York"'


def warnings(config: Config, secrets: Iterable[Secret], name: str) -> Iterator[str]:
    """What works and should not stay: secrets in the file, a password in the clear, a purpose that is misspelt."""
    for secret in secrets:
        if secret.literal and _in_file(config, tuple(secret.key.partition("[")[0].split("."))):
            yield f'{name}: {secret.key}: the secret stands in the file; write "env:NAME" or "file:PATH" instead'
    if config.database.has_password and _in_file(config, ("database",)):
        yield f"{name}: database: a password stands in the file; set DULY_DATABASE or PGPASSWORD instead"
    for key, provider in config.providers.items():
        if isinstance(provider, Smtp) and _in_the_clear(provider):
            better = "write smtp+starttls:// or smtps://"
            yield f"{name}: providers.{key}.url: smtp:// sends the password in the clear; {better}"
    for place, purpose in _purposes(config):
        if near := meant(purpose, frozenset(KNOWN_PURPOSES)):
            yield f'{name}: {place}: purpose "{purpose}" is near one that is known; did you mean "{near}"?'


def _purposes(config: Config) -> Iterator[tuple[str, str]]:
    """Every purpose that the configuration names, each with its key."""
    for name, account in config.accounts.items():
        yield from ((f"accounts.{name}.caps", purpose) for purpose in account.caps)
        yield from ((f"accounts.{name}.quiet_purposes", purpose) for purpose in account.quiet_purposes or ())
    if config.unsubscribe:
        yield from (("unsubscribe.purposes", purpose) for purpose in config.unsubscribe.purposes)


def _in_file(config: Config, key: Key) -> bool:
    return key in config.origins and not config.origins[key].variable


def _in_the_clear(provider: Smtp) -> bool:
    server = provider.server
    return provider.password is not None and server.security == "none" and server.host not in LOOPBACK
