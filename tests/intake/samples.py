"""One good submission, an intake that takes it, and inputs that somebody will send one day."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, Final

from duly.content import Template, TemplateSet
from duly.core.model import Channel
from duly.intake import Intake, Rejection, read

NAMESPACE: Final = "tests"
ALL_CHANNELS: Final = {Channel.EMAIL: "mail", Channel.SMS: "texts", Channel.WEBHOOK: "hooks"}
ZONES: Final = {"harbour-lofts": "America/New_York"}
TEMPLATES: Final = TemplateSet(
    {
        "note": Template("note", "", "hello"),
        "inspection": Template("inspection", "Inspection", "{{ recipient.name }}: {{ data.unit }}"),
    }
)


def intake(channels: Mapping[str, str] = ALL_CHANNELS) -> Intake:
    """An intake for two templates, with a configured zone for one account."""
    return Intake(NAMESPACE, TEMPLATES, channels, ZONES.get)


def row(**changes: Any) -> dict[str, Any]:
    """A good row; a field that is changed to `...` is left out."""
    fields = {
        "idempotency_key": "inspection-4411",
        "account": "harbour-lofts",
        "to": {"id": "recipient-17", "name": "Ana", "email": "ana@example.com"},
        "template": "note",
        "notify_at": "2026-12-01T09:00:00Z",
        **changes,
    }
    return {name: value for name, value in fields.items() if value is not ...}


def refused(**changes: Any) -> tuple[str | None, str]:
    """The field and the reason of a row's rejection."""
    try:
        intake().accept(row(**changes))
    except Rejection as rejection:
        return rejection.field, rejection.reason
    raise AssertionError("the row was accepted")


def rows_of(content: bytes | str, form: str | None = None) -> list[tuple[int, Any]]:
    """What a file's content reads as: line numbers with objects or reasons."""
    raw = content.encode() if isinstance(content, str) else content
    return [
        (line, found.reason if isinstance(found, Rejection) else found) for line, found in read(io.BytesIO(raw), form)
    ]


NAUGHTY: Final = (
    "",
    " ",
    "\0",
    "a\0b",
    "\ud800",
    "x\udfffy",
    "\ud83d\ude00",
    "\r\nBcc: all@example.com",
    "line\nbreak",
    "tab\there",
    "\u202egnp.exe",
    "\u200b",
    "\ufeff",
    "\ufffe\uffff",
    "\u05e9\u05dc\u05d5\u05dd",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "e\u0301" * 500,
    "a" + "\u0300" * 5_000,
    "\u0131\u0130\u017f\u212a",
    "x" * 1_000_000,
    "\u20ac" * 100_000,
    "9" * 10_000,
    "{{ 7*7 }}",
    "{% for x in range(10**9) %}{% endfor %}",
    "${7*7} #{7*7} %s %n {0.__class__}",
    "'; DROP TABLE reminder; --",
    '"><script>alert(1)</script>',
    "../../etc/passwd",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "http://",
    "http://[",
    "http://[::1",
    "http://a:99999/",
    "http://\u2100.example.com",
    "https://user:pass@example.com/",
    "http\u017f://example.com",
    "http://" + "a." * 1_000,
    "http://" + "\u00fc" * 2_000 + ".example",
    "@",
    "@" * 1_000,
    "a@" + "b." * 120 + "c",
    '"' * 300 + "@example.com",
    "+",
    "+" + "1" * 39,
    "+1 (((((((",
    "NaN",
    "null",
    "P" + "9" * 60 + "D",
    "PT0S",
    "0000-00-00T00:00",
    "2999-12-31T23:59:59-23:59",
    "1970-01-01T00:00+14:00",
    "recipient",
    "localtime",
    "America",
    "drop",
)
