"""Templates: compiled when the configuration is read, versioned by their content, rendered in a sandbox.

The names that a template may use:

    data         the reminder's data, as submitted: `data.unit`
    recipient    `id`, `name`, `zone`, `locale`; what is not known is null
    reminder     `key` (the caller's idempotency key), `account`
    occurrence   the label of this firing: `once`
    due_at       the due time, a datetime in the recipient's zone if he has one, else in UTC:
                 `due_at | date("full")`, `due_at.strftime("%d %B, %H:%M")`
    starts_at    the anchor of a reminder some time before something, as `due_at` is; null for any other
    late         null if it is on time; else `by`, in the recipient's words ("2 hours"), and `minutes`
    range        as in Python, up to 1,000 numbers

Dates and times are shown by the filters of `duly.content.times`.

A template that uses any other name is refused when it is read. A name of `data` that is not there, or
that is null where it is printed, makes that row unrenderable; `missing` says so already at import. Null
can be tested: `{% if recipient.name %}`, `{{ recipient.name or "neighbour" }}`. Only `html` is escaped;
subject and text are plain. The subject is one line of at most 998 characters (RFC 5322, 2.1.1). What goes
by SMS may not take more segments than its template allows.

A row that is pinned to an earlier version is rendered by it: `with_versions`. One that is pinned to a version that is
not in the set is not rendered at all. What a text may cost is the current template's to say.

Every error that Jinja2 or Python raises while rendering becomes `Unrenderable`, whose text names the
template, the part, the line and the name, and never a value of the data. What bounds a rendering's time
and size is told in `duly.content.language`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Any, Final
from zoneinfo import ZoneInfo

from jinja2 import TemplateSyntaxError, meta

from duly.content.faults import describe
from duly.content.language import STEPS, Environment, TooMuch
from duly.content.look import Mention, look_at
from duly.content.times import READER, Reader, lateness
from duly.core import keys, sms, text
from duly.core.model import Channel, Claimed, Content
from duly.core.revising import base_label
from duly.core.schedule import ONCE, Slot, anchor_of
from duly.errors import ConfigError, Unrenderable, VersionUnknown

__all__ = ["Template", "TemplateSet"]

SUBJECT_CHARACTERS_MAX: Final = 998
PART_BYTES_MAX: Final = 100 * 1024
VERSION_CHARACTERS: Final = 12
ZONES_CACHED_MAX: Final = 1_024
EARLIER_VERSIONS_CACHED_MAX: Final = 1_000

_KNOWN: Final = frozenset({"data", "recipient", "reminder", "occurrence", "due_at", "starts_at", "late", "range"})
_FIELDS: Final = {
    "recipient": frozenset({"id", "name", "zone", "locale"}),
    "reminder": frozenset({"key", "account"}),
    "late": frozenset({"by", "minutes"}),
}
_PLAIN: Final = Environment(autoescape=False)
_HTML: Final = Environment(autoescape=True)
#: Stands for a recipient of whom only the id is known: the store will look him up.
_SOMEBODY: Final = {"id": "-", "name": "-", "zone": "UTC", "locale": "-"}
_ONCE: Final = Slot(ONCE, datetime(1970, 1, 1, tzinfo=UTC))


@dataclass(frozen=True, slots=True)
class Template:
    """The source of one template, and what its text may do as SMS, which is no part of its version."""

    name: str
    subject: str
    text: str
    html: str | None = None
    sms_segments_max: int = 10
    sms_to_gsm: bool = False  # typographic characters become plain ones, see `sms.to_gsm`

    @property
    def version(self) -> str:
        """12 hexadecimal digits of the SHA-256 of its parts, each prefixed by its length."""
        parts = (self.subject, self.text) if self.html is None else (self.subject, self.text, self.html)
        return keys.derive(*parts).hex()[:VERSION_CHARACTERS]


class TemplateSet:
    """Compiled templates. Implements `ports.Templates`."""

    def __init__(self, templates: Mapping[str, Template], part_bytes_max: int = PART_BYTES_MAX) -> None:
        """Compile them all. Raises ConfigError, which names the template, the part and the line."""
        self._sources = dict(templates)
        self._part_bytes_max = part_bytes_max
        self._compiled = {name: _Compiled(template, part_bytes_max) for name, template in templates.items()}
        self._earlier: Mapping[tuple[str, str], Template] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._compiled

    def __iter__(self) -> Iterator[str]:
        return iter(self._compiled)

    def source(self, name: str) -> Template:
        """The current source of a template. Raises KeyError for a name that is not in the set."""
        return self._sources[name]

    def version(self, name: str) -> str:
        """The current version of a template. Raises KeyError for a name that is not in the set."""
        return self._compiled[name].version

    def knows(self, name: str, version: str) -> bool:
        """Whether that version is in the set, be it the current one or an earlier one."""
        current = self._compiled.get(name)
        return (current is not None and current.version == version) or (name, version) in self._earlier

    def with_versions(self, sources: Iterable[Template]) -> TemplateSet:
        """A set of the same templates and of earlier versions, each compiled when a row asks for it."""
        more = copy(self)
        more._earlier = {**self._earlier, **{(one.name, one.version): self._as_sms(one) for one in sources}}  # noqa: SLF001 - of its kind
        return more

    def render(self, row: Claimed) -> Content:
        """See ports.Templates. Raises Unrenderable and VersionUnknown."""
        compiled = self._pinned(row) or self._compiled.get(row.template)
        if compiled is None:
            raise Unrenderable(f"template {row.template} is not configured; add it and redrive")
        recipient = {
            "id": row.recipient_ref,
            "name": row.recipient_name,
            "zone": row.recipient_zone,
            "locale": row.recipient_locale,
        }
        reminder = {"key": row.reminder_key, "account": row.account}
        slot = Slot(row.occurrence, row.due_at)
        content = compiled.render(_names(row.data, recipient, reminder, slot, row.late))
        return compiled.as_sms(content) if row.channel is Channel.SMS else content

    def _pinned(self, row: Claimed) -> _Compiled | None:
        """The earlier version that the row is pinned to; None if that is none, or the current one."""
        if row.template_version is None:
            return None
        source = self._earlier.get((row.template, row.template_version))
        if source is None:
            if not self.knows(row.template, row.template_version):
                raise VersionUnknown(f"template {row.template}: its version {row.template_version} is not at hand")
            return None
        try:
            return _earlier_version(source, self._part_bytes_max)
        except ConfigError as error:
            raise Unrenderable(f"{error} (in its version {source.version})") from None

    def _as_sms(self, earlier: Template) -> Template:
        current = self._sources.get(earlier.name, earlier)
        return replace(earlier, sms_segments_max=current.sms_segments_max, sms_to_gsm=current.sms_to_gsm)

    def missing(
        self,
        name: str,
        data: Mapping[str, Any],
        recipient: Mapping[str, str | None] | None,
        reminder: Mapping[str, str] | None = None,
        slot: Slot = _ONCE,
    ) -> str | None:
        """Why this template cannot be rendered with this data for a first occurrence, or None if it can.

        It tries, because only that is true of every template. `recipient` is None where he is not known
        yet; a template that decides by him is then not tried. The template must be in the set.
        """
        compiled = self._compiled[name]
        if recipient is None and compiled.asks_recipient:
            return None
        names = _names(data, recipient or _SOMEBODY, reminder or {"key": "-", "account": "-"}, slot)
        try:
            compiled.render(names)
        except Unrenderable as reason:
            return str(reason)
        return None


def _names(
    data: Mapping[str, Any],
    recipient: Mapping[str, str | None],
    reminder: Mapping[str, str],
    slot: Slot,
    late: timedelta | None = None,
) -> dict[str, Any]:
    return {
        "data": data,
        "recipient": recipient,
        "reminder": reminder,
        "occurrence": slot.label,
        "due_at": slot.due_at,
        "starts_at": anchor_of(Slot(base_label(slot.label), slot.due_at)),
        "late": late,
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
        self._source, self.version = template, template.version
        self._asks_time = any(part.look.shows_times or part.names & {"due_at", "starts_at", "late"} for part in parts)
        self.asks_recipient = any(part.look.decides_by("recipient") for part in parts)

    def render(self, names: dict[str, Any]) -> Content:
        """Raises Unrenderable."""
        if self._asks_time:
            self._tell_times(names)
        subject = text.one_line(self._subject.render(names), SUBJECT_CHARACTERS_MAX)
        html = None if self._html is None else self._html.render(names)
        return Content(subject, self._text.render(names), html, self.version)

    def as_sms(self, content: Content) -> Content:
        """The content as it goes by SMS. Raises Unrenderable if its text takes too many segments."""
        said = sms.to_gsm(content.text) if self._source.sms_to_gsm else content.text
        segments, most = sms.measure(said).segments, self._source.sms_segments_max
        if segments > most:
            raise Unrenderable(
                f"template {self._source.name}, text: it takes {segments} SMS segments, over the {most} allowed;"
                " shorten it, or raise sms_segments_max"
            )
        return content._replace(text=said)

    def _tell_times(self, names: dict[str, Any]) -> None:
        reader = Reader(self._zone(names["recipient"]["zone"]), names["recipient"]["locale"])
        names["due_at"] = names["due_at"].astimezone(reader.zone)
        names["starts_at"] = names["starts_at"] and names["starts_at"].astimezone(reader.zone)
        names["late"] = lateness(names["late"], reader)
        names[READER] = reader

    def _zone(self, name: str | None) -> tzinfo:
        try:
            return _zone(name) if name else UTC
        except (KeyError, ValueError, OSError):
            raise Unrenderable(
                f"template {self._source.name}: this machine does not know the recipient's zone; update tzdata"
            ) from None


@lru_cache(EARLIER_VERSIONS_CACHED_MAX)
def _earlier_version(template: Template, bytes_max: int) -> _Compiled:
    return _Compiled(template, bytes_max)


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
