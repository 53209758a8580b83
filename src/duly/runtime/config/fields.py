"""The types of single values: how what was written becomes what is meant, and what is refused.

A validator here raises ValueError with the words that the operator will read after the key. It never quotes
the value: it may be a secret in the wrong place.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field, InstanceOf, PlainSerializer, ValidationInfo

from duly.core.model import Channel
from duly.core.moments import parse_duration
from duly.errors import InputError
from duly.runtime.config.values import Database, EnvText, Secret, parse_database, parse_smtp

__all__ = [
    "AccountName",
    "DatabaseField",
    "Duration",
    "EndpointUrl",
    "LookupUrl",
    "Name",
    "Number",
    "Queue",
    "SecretField",
    "SecretsField",
    "Sender",
    "SmtpUrl",
    "Switch",
    "UnsubscribeUrl",
    "Whole",
    "Zone",
    "channel_of",
    "did_you_mean",
    "nearest",
    "printable",
]

URL_CHARACTERS_MAX: Final = 2_048
UNSUBSCRIBE_URL_CHARACTERS_MAX: Final = 400  # it stands in a header's line of 998, with a token behind it
PURPOSES_MAX: Final = 100
PURPOSE_CHARACTERS_MAX: Final = 50
NAME_CHARACTERS_MAX: Final = 100
SECRETS_MAX: Final = 8  # that sign one request while they rotate
DOTS: Final = re.compile(r"/(?:\.|%2e){1,2}(?:[/?#]|$)", re.IGNORECASE)
STAND_IN: Final = "a" * 26  # an id, as far as a URL can tell
SWITCHES: Final = {
    "true": True,
    "1": True,
    "yes": True,
    "on": True,
    "false": False,
    "0": False,
    "no": False,
    "off": False,
}
SENDER: Final = re.compile(r"(?:[^<>]*<[^<>@\s]+@[^<>@\s]+>|[^<>@\s]+@[^<>@\s]+)")


def nearest(wrong: str, known: Iterable[str]) -> str | None:
    """The known word that this one may have been meant to be."""
    return next(iter(difflib.get_close_matches(wrong, list(known), n=1)), None)


def did_you_mean(word: str | None) -> str:
    """The end of a complaint that knows better."""
    return f'; did you mean "{word}"?' if word else ""


# --- numbers and switches ------------------------------------------------------------------------


def _read(kind: Callable[[str], Any], name: str) -> BeforeValidator:
    def read(value: Any) -> Any:
        if not isinstance(value, EnvText):
            return value
        try:
            return kind(value)
        except (ValueError, KeyError):
            raise ValueError(f"expected {name}, got text") from None

    return BeforeValidator(read)


Number = Annotated[float, _read(float, "a number")]
Whole = Annotated[int, _read(int, "a whole number")]
Switch = Annotated[bool, _read(lambda text: SWITCHES[text.strip().lower()], "true or false")]


# --- names, zones, durations ---------------------------------------------------------------------


def _plain_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name):
        raise ValueError("a name holds letters, digits, - and _ only")
    return name


def printable(text: str) -> str:
    """The name of a thing that may hold more than letters, as it is. Raises ValueError."""
    if not text.isprintable() or text != text.strip():
        raise ValueError("a name holds no control characters, and no blanks around it")
    return text


def _zone(name: str) -> str:
    from duly.intake.zones import find  # the reader of addresses is slow to load, and seldom needed

    return str(_as_value_error(find, name, ""))


def _as_value_error(rule: Callable[..., Any], *arguments: str) -> Any:
    """Apply a rule of the intake, so that configuration and reminders are held to the same one."""
    try:
        return rule(*arguments)
    except InputError as error:
        raise ValueError(str(error)) from None


def _duration(value: Any) -> Any:
    return parse_duration(value) if isinstance(value, str) else value


def channel_of(channel: Channel) -> BeforeValidator:
    """The channel of a kind, which has only one."""

    def fit(value: Any) -> Channel:
        if value != channel:
            raise ValueError(f'this kind delivers on channel "{channel}"')
        return channel

    return BeforeValidator(fit)


def _only_queue(text: str) -> str:
    if text != "database":
        raise ValueError('only "database" is in this version of Duly; brokers are not in it yet')
    return text


Name = Annotated[str, Field(max_length=NAME_CHARACTERS_MAX), AfterValidator(_plain_name)]
AccountName = Annotated[str, Field(min_length=1, max_length=NAME_CHARACTERS_MAX), AfterValidator(printable)]
Zone = Annotated[str, AfterValidator(_zone)]
Duration = Annotated[timedelta, BeforeValidator(_duration)]
Queue = Annotated[str, AfterValidator(_only_queue)]


# --- secrets -------------------------------------------------------------------------------------


def _flawless(secret: Secret) -> Secret:
    if flaw := secret.flaw():
        raise ValueError(flaw)
    return secret


def _listed(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else (value,)


def _shown(secrets: tuple[Secret, ...] | None) -> list[str] | str | None:
    shown = [str(secret) for secret in secrets or ()]
    return shown if len(shown) > 1 else next(iter(shown), None)


SecretField = Annotated[InstanceOf[Secret], AfterValidator(_flawless), PlainSerializer(str, return_type=str)]
SecretsField = Annotated[
    tuple[SecretField, ...],
    BeforeValidator(_listed),
    Field(min_length=1, max_length=SECRETS_MAX),
    PlainSerializer(_shown),
]


# --- addresses -----------------------------------------------------------------------------------


def _database(value: Any, info: ValidationInfo) -> Any:
    folders: dict[str, Path] = info.context or {}
    match value:
        case EnvText():
            return parse_database(value, folders["here"])
        case str():
            return parse_database(value, folders["folder"])
    raise ValueError('expected text, such as "sqlite:///duly.db"')


def _smtp_url(text: str) -> str:
    parse_smtp(text)
    return text


def _endpoint_url(text: str) -> str:
    from duly.intake import normal_url  # as above

    return str(_as_value_error(normal_url, text))


def _lookup_url(text: str) -> str:
    """In its normal form, by the rules of any other URL; empty: nobody can be asked."""
    from duly.providers.webhook_lookup import DELIVERY  # only a webhook that can be asked needs it

    if not text:
        return text
    before, *after = text.split(DELIVERY)
    if len(after) != 1:
        raise ValueError(f"{DELIVERY} must stand in it once, where the delivery's id goes")
    whole = _endpoint_url(before + STAND_IN + after[0])
    if not re.match(r"[^/]*//[^/?]*[/?]", before):
        raise ValueError(f"{DELIVERY} must stand in the path or the query, not in the host")
    if DOTS.search(text):  # a client would take them out, and its neighbour with them
        raise ValueError("its path may not hold . or .. as a step")
    return whole.removesuffix(STAND_IN + after[0]) + DELIVERY + after[0]


def _unsubscribe_url(text: str) -> str:
    """In its normal form, without the slash at its end."""
    url = _endpoint_url(text)
    if not url.startswith("https://"):
        raise ValueError("must be https: mail programs follow no other link (RFC 8058)")
    if "?" in url:
        raise ValueError("holds a query; a token is put behind its path, so take away what follows the ?")
    return url.rstrip("/")


def _sender(text: str) -> str:
    if not text.isprintable() or not SENDER.fullmatch(text):
        raise ValueError('not a sender; write "reminders@example.com" or "Name <reminders@example.com>"')
    return text


DatabaseField = Annotated[InstanceOf[Database], BeforeValidator(_database), PlainSerializer(str, return_type=str)]
SmtpUrl = Annotated[str, Field(max_length=URL_CHARACTERS_MAX), AfterValidator(_smtp_url)]
EndpointUrl = Annotated[str, AfterValidator(_endpoint_url)]  # in its normal form
LookupUrl = Annotated[str, AfterValidator(_lookup_url)]  # as that, with `{delivery}` once, or empty
UnsubscribeUrl = Annotated[str, Field(max_length=UNSUBSCRIBE_URL_CHARACTERS_MAX), AfterValidator(_unsubscribe_url)]
Sender = Annotated[str, Field(max_length=320), AfterValidator(_sender)]
