"""Templates: compiled when the configuration is read, versioned by their content, rendered in a sandbox.

The names that a template may use:

    data         the reminder's data, as submitted: `data.unit`
    recipient    `id`, `name`, `zone`, `locale`; what is not known is null
    reminder     `key` (the caller's idempotency key), `account`
    occurrence   the label of this firing: `once`
    due_at       the due time, a datetime in the recipient's zone if he has one, else in UTC:
                 `due_at.strftime("%d %B, %H:%M")`
    range        as in Python, up to 1,000 numbers

A template that uses any other name is refused when it is read. A name of `data` that is not there, or
that is null where it is printed, makes that row unrenderable; `missing` says so already at import. Null
can be tested: `{% if recipient.name %}`, `{{ recipient.name or "neighbour" }}`. Only `html` is escaped;
subject and text are plain. The subject is one line of at most 998 characters (RFC 5322, 2.1.1).

Every error that Jinja2 or Python raises while rendering becomes `Unrenderable`, whose text names the
template, the part, the line and the name, and never a value of the data. What bounds a rendering's time
and size is told in `duly.content.language`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import Any, Final
from zoneinfo import ZoneInfo

from jinja2 import TemplateSyntaxError, meta

from duly.content.faults import describe
from duly.content.language import STEPS, Environment, TooMuch
from duly.content.look import Mention, look_at
from duly.core import keys, text
from duly.core.model import Claimed, Content
from duly.core.schedule import ONCE
from duly.errors import ConfigError, Unrenderable

__all__ = ["Template", "TemplateSet"]

SUBJECT_CHARACTERS_MAX: Final = 998
PART_BYTES_MAX: Final = 100 * 1024
VERSION_CHARACTERS: Final = 12
ZONES_CACHED_MAX: Final = 1_024

_KNOWN: Final = frozenset({"data", "recipient", "reminder", "occurrence", "due_at", "range"})
_FIELDS: Final = {"recipient": frozenset({"id", "name", "zone", "locale"}), "reminder": frozenset({"key", "account"})}
_PLAIN: Final = Environment(autoescape=False)
_HTML: Final = Environment(autoescape=True)
#: Stands for a recipient of whom only the id is known: the store will look him up.
_SOMEBODY: Final = {"id": "-", "name": "-", "zone": "UTC", "locale": "-"}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Template:
    """The source of one template."""

    name: str
    subject: str
    text: str
    html: str | None = None

    @property
    def version(self) -> str:
        """12 hexadecimal digits of the SHA-256 of its parts, each prefixed by its length."""
        parts = (self.subject, self.text) if self.html is None else (self.subject, self.text, self.html)
        return keys.derive(*parts).hex()[:VERSION_CHARACTERS]


class TemplateSet:
    """Compiled templates. Implements `ports.Templates`."""

    def __init__(self, templates: Mapping[str, Template], part_bytes_max: int = PART_BYTES_MAX) -> None:
        """Compile them all. Raises ConfigError, which names the template, the part and the line."""
        self._compiled = {name: _Compiled(template, part_bytes_max) for name, template in templates.items()}

    def __contains__(self, name: object) -> bool:
        return name in self._compiled

    def __iter__(self) -> Iterator[str]:
        return iter(self._compiled)

    def render(self, row: Claimed) -> Content:
        """Render the row's template. Raises Unrenderable, with the reason that views show."""
        compiled = self._compiled.get(row.template)
        if compiled is None:
            raise Unrenderable(f"template {row.template} is not configured; add it and redrive")
        recipient = {
            "id": row.recipient_ref,
            "name": row.recipient_name,
            "zone": row.recipient_zone,
            "locale": row.recipient_locale,
        }
        reminder = {"key": row.reminder_key, "account": row.account}
        return compiled.render(_names(row.data, recipient, reminder, row.occurrence, row.due_at))

    def missing(
        self,
        name: str,
        data: Mapping[str, Any],
        recipient: Mapping[str, str | None] | None,
        reminder: Mapping[str, str] | None = None,
        due_at: datetime = _EPOCH,
    ) -> str | None:
        """Why this template cannot be rendered with this data, or None if it can.

        It tries, because only that is true of every template. `recipient` is None where he is not known
        yet; a template that decides by him is then not tried. The template must be in the set.
        """
        compiled = self._compiled[name]
        if recipient is None and compiled.asks_recipient:
            return None
        names = _names(data, recipient or _SOMEBODY, reminder or {"key": "-", "account": "-"}, ONCE, due_at)
        try:
            compiled.render(names)
        except Unrenderable as reason:
            return str(reason)
        return None


def _names(
    data: Mapping[str, Any],
    recipient: Mapping[str, str | None],
    reminder: Mapping[str, str],
    occurrence: str,
    due_at: datetime,
) -> dict[str, Any]:
    return {
        "data": data,
        "recipient": recipient,
        "reminder": reminder,
        "occurrence": occurrence,
        "due_at": due_at,
        "range": _PLAIN.globals["range"],
        STEPS: [0],
    }


class _Compiled:
    """One template's parts."""

    def __init__(self, template: Template, bytes_max: int) -> None:
        self._subject = _Part(template.name, "subject", template.subject, _PLAIN, bytes_max)
        self._text = _Part(template.name, "text", template.text, _PLAIN, bytes_max)
        self._html = None
        if template.html is not None:
            self._html = _Part(template.name, "html", template.html, _HTML, bytes_max)
        parts = [part for part in (self._subject, self._text, self._html) if part]
        self._name = template.name
        self._version = template.version
        self._asks_time = any("due_at" in part.names for part in parts)
        self.asks_recipient = any(part.look.decides_by("recipient") for part in parts)

    def render(self, names: dict[str, Any]) -> Content:
        """Raises Unrenderable."""
        if self._asks_time:
            names["due_at"] = names["due_at"].astimezone(self._zone(names["recipient"]["zone"]))
        subject = text.one_line(self._subject.render(names), SUBJECT_CHARACTERS_MAX)
        html = None if self._html is None else self._html.render(names)
        return Content(subject, self._text.render(names), html, self._version)

    def _zone(self, name: str | None) -> tzinfo:
        try:
            return _zone(name) if name else UTC
        except (KeyError, ValueError, OSError):
            raise Unrenderable(
                f"template {self._name}: this machine does not know the recipient's zone; update tzdata"
            ) from None


class _Part:
    """A compiled subject, text or HTML."""

    def __init__(self, template: str, part: str, source: str, environment: Environment, bytes_max: int) -> None:
        self._where = f"template {template}, {part}"
        self._bytes_max = bytes_max
        try:
            _check_text(source)
            tree = environment.parse(source)
            self._template = environment.from_string(source)
            self.names = meta.find_undeclared_variables(tree)
            self.look = look_at(tree)
            _check_names(self.names, self.look.mentions)
        except TemplateSyntaxError as error:
            raise ConfigError(f"{self._where}, line {error.lineno}: {error.message}") from None
        except Exception as error:  # noqa: BLE001 - whatever the compilers of Jinja2 and Python may raise
            raise ConfigError(f"{self._where}: it cannot be compiled ({type(error).__name__}); simplify it") from None

    def render(self, names: dict[str, Any]) -> str:
        """Raises Unrenderable."""
        try:
            return self._bounded("".join(self._pieces(names)))
        except Exception as error:  # noqa: BLE001 - a template may raise anything that Python can
            where, reason = describe(error, self._template, self.look, names)
            raise Unrenderable(f"{self._where}{where}: {reason}") from None

    def _pieces(self, names: dict[str, Any]) -> list[str]:
        pieces, left = [], self._bytes_max
        for piece in self._template.root_render_func(self._template.new_context(names, shared=True)):
            left -= len(piece)
            if left < 0:
                raise self._too_long()
            pieces.append(piece)
        return pieces

    def _bounded(self, rendered: str) -> str:
        if not rendered.isascii() and len(rendered.encode()) > self._bytes_max:
            raise self._too_long()
        return rendered

    def _too_long(self) -> TooMuch:
        return TooMuch(f"it becomes longer than {self._bytes_max:,} bytes")


def _check_text(source: str) -> None:
    if not text.is_recordable(source):
        raise TemplateSyntaxError("it holds a NUL or half a surrogate pair; take it out", 1)


def _check_names(names: set[str], mentions: tuple[Mention, ...]) -> None:
    """Raises TemplateSyntaxError for a name that no row will ever have."""
    for mention in mentions:
        root, *rest = mention.path
        if root not in names:
            continue
        if root not in _KNOWN:
            raise TemplateSyntaxError(f"there is no {root}; a template knows {_list(_KNOWN)}", mention.line)
        if rest and root in _FIELDS and rest[0] not in _FIELDS[root]:
            raise TemplateSyntaxError(f"{root} has no {rest[0]}; it has {_list(_FIELDS[root])}", mention.line)


def _list(names: frozenset[str]) -> str:
    return ", ".join(sorted(names))


@lru_cache(ZONES_CACHED_MAX)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)
