"""Values that must not be printed as they are, and the URLs that may carry them.

A `Secret` knows its key and where to look, and looks only when `reveal` is called. A `Database` is a URL
whose password is masked whenever it is turned into text. Both are strict about what they take, because a
URL that is read differently here than by the driver would be masked in the wrong place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NamedTuple
from urllib.parse import unquote, urlsplit

from duly.errors import ConfigError

__all__ = ["MASK", "Database", "EnvText", "Secret", "SmtpServer", "parse_database", "parse_smtp"]

MASK: Final = "***"
SECRET_BYTES_MAX: Final = 65_536
VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
UNPRINTABLE: Final = re.compile(r"[\x00-\x20\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_HOST: Final = r"(?:[A-Za-z0-9._%-]*|\[[0-9A-Fa-f:.%]+\])(?::[0-9]{1,5})?"
HOSTS: Final = re.compile(f"{_HOST}(?:,{_HOST})*")


class EnvText(str):
    """Text from the environment: it is read as whatever type its key has, and its paths start here."""

    __slots__ = ()


# --- secrets -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret's key (`providers.hooks.secret`), and its reference: `env:NAME`, `file:PATH` or the text itself.

    Paths are relative to `folder`. Whatever prints it shows a reference, and never the secret.
    """

    key: str
    reference: str = field(repr=False)
    folder: Path = field(repr=False)
    environ: Mapping[str, str] = field(repr=False, compare=False)

    @property
    def literal(self) -> bool:
        """Whether the text is the secret itself."""
        return not self.reference.startswith(("env:", "file:"))

    @property
    def variable(self) -> str | None:
        """The environment variable that it refers to, if it does."""
        return self.reference[4:] if self.reference.startswith("env:") else None

    def __str__(self) -> str:
        return MASK if self.literal else self.reference

    def flaw(self) -> str | None:
        """What is wrong with the reference itself, before anything is looked up."""
        if not self.reference or self.reference == "file:":
            return 'empty; write "env:NAME" or "file:PATH"'
        if self.variable is not None and not VARIABLE.fullmatch(self.variable):
            return 'the name after "env:" is not the name of an environment variable'
        return "a path cannot hold a NUL character" if "\0" in self.reference else None

    def reveal(self) -> str:
        """Look the secret up. Raises ConfigError, naming the key and the variable or file."""
        if self.literal:
            return self.reference
        found = self._from_file() if self.variable is None else self._from_environment(self.variable)
        if not found:
            raise ConfigError(f"{self.key}: {self._place()} is empty")
        return found

    def _place(self) -> str:
        if self.variable is not None:
            return f"the environment variable {self.variable}"
        return f"the file {UNPRINTABLE.sub('?', self.reference[5:])}"

    def _from_environment(self, variable: str) -> str:
        try:
            return self.environ[variable]
        except KeyError:
            raise ConfigError(f"{self.key}: {self._place()} is not set") from None

    def _from_file(self) -> str:
        try:
            with (self.folder / Path(self.reference[5:]).expanduser()).open("rb") as file:
                raw = file.read(SECRET_BYTES_MAX + 1)
            text = raw.decode("utf-8").rstrip("\r\n")
        except (OSError, RuntimeError) as error:
            raise ConfigError(f"{self.key}: {self._place()} cannot be read: {_why(error)}") from None
        except UnicodeDecodeError:
            raise ConfigError(f"{self.key}: {self._place()} is not UTF-8 text") from None
        if len(raw) > SECRET_BYTES_MAX:
            raise ConfigError(f"{self.key}: {self._place()} is larger than {SECRET_BYTES_MAX} bytes")
        return text


def _why(error: Exception) -> str:
    strerror = error.strerror if isinstance(error, OSError) else None
    return (strerror or str(error)).lower()


# --- the database --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Database:
    """Where the ledger is. `path` is the file of an SQLite database, absolute; None for PostgreSQL."""

    dialect: Literal["sqlite", "postgresql"]
    masked: str
    path: Path | None
    _url: str = field(repr=False)

    def __str__(self) -> str:
        return self.masked

    @property
    def has_password(self) -> bool:
        """Whether the URL itself holds a password."""
        return self.masked != self._url

    def reveal(self) -> str:
        """The whole URL: `sqlite:////absolute/path` or `postgresql://...`."""
        return self._url


def parse_database(text: str, folder: Path) -> Database:
    """Read a database URL; a relative SQLite path starts at `folder`. Raises ValueError with what to write."""
    scheme, separator, rest = text.partition("://")
    if not text:
        raise ValueError('empty; write for example "sqlite:///duly.db"')
    if UNPRINTABLE.search(text):
        raise ValueError("a URL holds no blanks and no control characters; write them as %20")
    if separator and scheme == "sqlite":
        return _sqlite(rest, folder)
    if separator and scheme in ("postgresql", "postgres"):
        return _postgresql(rest)
    if separator and scheme.startswith(("postgresql+", "postgres+", "sqlite+")):
        raise ValueError(f'no driver is named here; write "{scheme.partition("+")[0]}://..."')
    raise ValueError('not a database URL; write "sqlite:///duly.db" or "postgresql://user@host/db"')


def _sqlite(rest: str, folder: Path) -> Database:
    if not rest.startswith("/"):
        raise ValueError('an SQLite file takes three slashes: "sqlite:///duly.db" (four, if the path is absolute)')
    name = rest[1:]
    if not name or name.endswith("/") or name == ":memory:":
        raise ValueError('name a file, as in "sqlite:///duly.db": reminders must outlive the program')
    if "?" in name or "#" in name:
        raise ValueError("an SQLite URL takes no options after the file's name")
    path = (folder / name).absolute()
    return Database("sqlite", f"sqlite:///{path}", path, f"sqlite:///{path}")


def _postgresql(rest: str) -> Database:
    # libpq ends the host part at the first "/" or "?", and the user part at the first "@" before it.
    authority = re.split(r"[/?]", rest, maxsplit=1)[0]
    user_part, at, hosts = authority.partition("@") if "@" in authority else ("", "", authority)
    if not HOSTS.fullmatch(hosts) or "#" in rest:
        raise ValueError("the host or port cannot be read; in a password write @ as %40, / as %2F, ? as %3F, # as %23")
    user, colon, password = user_part.partition(":")
    path, question, options = rest[len(authority) :].partition("?")
    tail = path + question + "&".join(_masked_option(option) for option in options.split("&"))
    masked = f"{user}{colon}{MASK if password else ''}{at}{hosts}{tail}"
    return Database("postgresql", f"postgresql://{masked}", None, f"postgresql://{rest}")


def _masked_option(option: str) -> str:
    name, equals, _ = option.partition("=")
    return f"{name}={MASK}" if equals and "password" in unquote(name).lower() else option


# --- a mail server -------------------------------------------------------------------------------


class SmtpServer(NamedTuple):
    """A mail server. `security`: none, starttls (demanded, not merely tried) or tls (from the first byte)."""

    security: Literal["none", "starttls", "tls"]
    host: str
    port: int
    username: str | None


#: RFC 5321 (25), RFC 6409 (587) and RFC 8314 (465).
_SMTP: Final[dict[str, tuple[Literal["none", "starttls", "tls"], int]]] = {
    "smtp": ("none", 25),
    "smtp+starttls": ("starttls", 587),
    "smtps": ("tls", 465),
}


def parse_smtp(text: str) -> SmtpServer:
    """Read smtp://[user@]host[:port], smtps:// or smtp+starttls://. Raises ValueError with what to write."""
    if UNPRINTABLE.search(text):
        raise ValueError("a URL holds no blanks and no control characters")
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError("the host or port cannot be read; write smtp://[user@]host:port") from None
    if parts.scheme not in _SMTP or not host:
        raise ValueError("not a mail server; write smtp://[user@]host:port, smtps:// or smtp+starttls://")
    if parts.password is not None:
        raise ValueError('the password does not belong into the URL; write password = "env:NAME"')
    if parts.path.strip("/") or parts.query or parts.fragment or port == 0:
        raise ValueError("nothing may follow the port; write smtp://[user@]host:port")
    security, usual_port = _SMTP[parts.scheme]
    return SmtpServer(security, host, port or usual_port, unquote(parts.username) if parts.username else None)
