"""Every key of the configuration, with its type, its default and its limits.

Values from a file are taken strictly: `"60"` is not a number, and `true` is not 1. Values from the
environment are text and are read as the type of their key. Checks that need more than one table are in
`checks`; the words of the complaints are in `problems`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from duly.core.model import Channel, OnDoubt
from duly.core.quiet_hours import LOUD_PURPOSE, Window
from duly.core.regional_hours import REGIONS
from duly.core.sms import SEGMENTS_MAX
from duly.runtime.config.fields import (
    AccountName,
    DatabaseField,
    Duration,
    EndpointUrl,
    LookupUrl,
    Name,
    Number,
    Queue,
    SecretField,
    SecretsField,
    Sender,
    SmtpUrl,
    Switch,
    UnsubscribeUrl,
    Whole,
    Zone,
    channel_of,
)
from duly.runtime.config.layers import Key, Origin
from duly.runtime.config.quiet import PURPOSES_MAX, CapField, Purpose, Purposes, QuietHours, QuietRegion
from duly.runtime.config.values import SmtpServer, parse_smtp

__all__ = ["KINDS", "Account", "Config", "Endpoint", "Provider", "Smtp", "Template", "Unsubscribe", "Webhook"]

TABLES_MAX: Final = 10_000  # endpoints, accounts, templates: each
PROVIDERS_MAX: Final = 100
TEMPLATE_CHARACTERS_MAX: Final = 1_000_000
SETTLING_SECONDS_MIN: Final = 0.01  # two misses must be told apart
SETTLING_SECONDS_MAX: Final = 86_400  # a miss that has to wait longer answers nobody


class Table(BaseModel):
    """What all tables share: unknown keys and loose types are refused, and nothing changes after loading."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, hide_input_in_errors=True, populate_by_name=False
    )


class _Provider(Table):
    kind: str
    channel: Channel
    timeout_seconds: Number = Field(10.0, gt=0, le=600)
    rate_per_second: Number | None = Field(None, gt=0, le=1_000_000)  # None: no limit
    max_attempts: Whole = Field(100, ge=1, le=1_000)


class Webhook(_Provider):
    """Posts to URLs, signed as Standard Webhooks. An endpoint may have its own secret, rate and promise."""

    kind: Literal["webhook"]
    channel: Annotated[Channel, channel_of(Channel.WEBHOOK)] = Channel.WEBHOOK
    secrets: SecretsField = Field(alias="secret")  # all of them sign
    deduplicates: Switch = False
    key_window: Duration = timedelta(days=1)
    lookup_url: LookupUrl | None = None  # None, or empty: the receivers cannot be asked
    settling_seconds: Number = Field(60.0, ge=SETTLING_SECONDS_MIN, le=SETTLING_SECONDS_MAX)
    allow_private_networks: Switch = False
    concurrency: Whole = Field(1_024, ge=1, le=10_000)  # requests in the air, for each worker
    concurrency_per_host: Whole = Field(1_024, ge=1, le=10_000)


class Smtp(_Provider):
    """Sends through one mail server."""

    kind: Literal["smtp"]
    channel: Annotated[Channel, channel_of(Channel.EMAIL)] = Channel.EMAIL
    timeout_seconds: Number = Field(30.0, gt=0, le=600)
    url: SmtpUrl
    username: Annotated[str, Field(min_length=1, max_length=320)] | None = None
    password: SecretField | None = None
    sender: Sender = Field(alias="from")
    concurrency: Whole = Field(20, ge=1, le=1_000)  # connections, for each worker

    @property
    def server(self) -> SmtpServer:
        """The server that `url` names, with the user name from wherever it was given."""
        server = parse_smtp(self.url)
        return server._replace(username=self.username or server.username)

    @model_validator(mode="after")
    def _one_user(self) -> Smtp:
        in_url = parse_smtp(self.url).username
        if in_url and self.username:
            raise ValueError("the user name stands in url and in username; write one of them")
        if self.password and not self.server.username:
            raise ValueError("a password without a user name; write username")
        return self


Provider = Annotated[Webhook | Smtp, Field(discriminator="kind")]
KINDS: Final[dict[str, type[Table]]] = {"webhook": Webhook, "smtp": Smtp}


class Endpoint(Table):
    """What differs for one webhook receiver; None: as its provider says."""

    url: EndpointUrl
    secrets: SecretsField | None = Field(None, alias="secret")
    deduplicates: Switch | None = None
    key_window: Duration | None = None
    lookup_url: LookupUrl | None = None  # empty: this one cannot be asked, whatever its provider says
    settling_seconds: Number | None = Field(None, ge=SETTLING_SECONDS_MIN, le=SETTLING_SECONDS_MAX)
    rate_per_second: Number | None = Field(None, gt=0, le=1_000_000)


class Account(Table):
    """What one account has chosen."""

    zone: Zone | None = None
    on_doubt: OnDoubt = Field(OnDoubt.HOLD, strict=False)
    hold_alarm: Duration = timedelta(hours=4)  # after which a hold is a finding of `duly doctor`
    hold_for: Duration = timedelta(days=7)  # after which it ends without an operator
    hold_then: Literal["close", "resend"] = "close"
    quiet_hours: QuietHours = ()  # of each recipient's local day
    quiet_region: QuietRegion | None = None  # the hours of a region instead; see core.regional_hours
    quiet_purposes: Purposes | None = None  # which purposes keep them; None: every one but security
    caps: dict[Purpose, CapField] = Field(default_factory=dict, max_length=PURPOSES_MAX)  # by purpose

    @property
    def windows(self) -> tuple[Window, ...]:
        """The quiet hours that it has chosen, its own or a region's."""
        return self.quiet_hours or (REGIONS[self.quiet_region].windows if self.quiet_region else ())

    def keeps_quiet(self, purpose: str) -> bool:
        """Whether a reminder of this purpose waits for the end of quiet hours."""
        return purpose != LOUD_PURPOSE if self.quiet_purposes is None else purpose in self.quiet_purposes


class Template(Table):
    """One template, in Jinja's syntax. It is compiled at start, not here."""

    subject: str = Field("", max_length=1_000)
    text: str = Field(max_length=TEMPLATE_CHARACTERS_MAX)
    html: str | None = Field(None, max_length=TEMPLATE_CHARACTERS_MAX)
    sms_segments_max: Whole = Field(10, ge=1, le=SEGMENTS_MAX)  # a text that takes more is not sent by SMS
    sms_to_gsm: Switch = False  # by SMS, typographic quotes, dashes and blanks become plain ones


class Unsubscribe(Table):
    """Unsubscribing by one click (RFC 8058): where the links lead, what signs them, and whose mail has them."""

    url: UnsubscribeUrl
    secrets: SecretsField = Field(alias="secret")  # the first makes links, all of them read them
    purposes: Purposes = ("marketing",)


class Config(Table):
    """The whole configuration. `file` is None if everything came from the environment."""

    database: DatabaseField
    queue: Queue = "database"
    namespace: str | None = Field(None, pattern=r"^[A-Za-z0-9._-]{1,64}$")  # None: as the database has it
    lease_seconds: Number = Field(60.0, gt=0, le=3_600)
    providers: dict[Name, Provider] = Field(default_factory=dict, max_length=PROVIDERS_MAX)
    endpoints: dict[Name, Endpoint] = Field(default_factory=dict, max_length=TABLES_MAX)
    accounts: dict[AccountName, Account] = Field(default_factory=dict, max_length=TABLES_MAX)
    templates: dict[Name, Template] = Field(default_factory=dict, max_length=TABLES_MAX)
    unsubscribe: Unsubscribe | None = None

    _file: Path | None = PrivateAttr(None)
    _origins: Mapping[Key, Origin] = PrivateAttr(default_factory=dict)
    _warnings: tuple[str, ...] = PrivateAttr(())

    def came_from(self, file: Path | None, origins: Mapping[Key, Origin], warnings: Iterable[str]) -> Config:
        """Remember what the loader knows about it."""
        self._file, self._origins = file, origins
        self._warnings = tuple(warnings)
        return self

    @property
    def file(self) -> Path | None:
        """The file that was read."""
        return self._file

    @property
    def origins(self) -> Mapping[Key, Origin]:
        """Where each value came from, by the path of its key. Defaults are absent."""
        return self._origins

    @property
    def warnings(self) -> tuple[str, ...]:
        """Lines for the operator about things that work and should not stay.

        They hold names of keys and purposes, and no other values.
        """
        return self._warnings
