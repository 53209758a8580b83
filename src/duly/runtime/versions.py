"""Versions of templates: kept when reminders are pinned to them, and fetched when a claimed row needs one.

The configuration holds the current version of each template only. An import keeps them in the ledger before it pins
reminders to them. A worker renders by what it knows; `learn` looks at claimed rows before they are sent, and fetches
the versions that it does not know yet. Where the ledger has none, or does not answer, those rows wait and are looked
at again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

from duly.content import Template, TemplateSet
from duly.core.model import Claimed, Content, TemplateSource
from duly.errors import StoreError, StoreUnavailable
from duly.flows.route import parts
from duly.ports import Store

__all__ = ["PinnedTemplates", "keep"]

KEPT_AT_ONCE_ROWS: Final = 200
KNOWN_VERSIONS_MAX: Final = 1_000


class PinnedTemplates:
    """ports.Templates: the configured ones, and every version that a row was found to be pinned to."""

    def __init__(self, store: Store, configured: TemplateSet) -> None:
        self._store = store
        self._configured = self._known = configured
        self._learned = 0

    def render(self, row: Claimed) -> Content:
        """See Templates.render. Raises Unrenderable and VersionUnknown."""
        return self._known.render(row)

    async def learn(self, rows: Iterable[Claimed]) -> None:
        """Fetch the versions of these rows that are not known yet, as far as the ledger has them."""
        pinned = {(row.template, row.template_version) for row in rows if row.template_version is not None}
        unknown = [pair for pair in sorted(pinned) if not self._known.knows(*pair)]
        if unknown:
            with suppress(StoreUnavailable, StoreError):  # the rows are claimed: they must not be lost for it
                self._add(await self._store.template_sources(unknown))

    def _add(self, found: Sequence[TemplateSource]) -> None:
        """Know some more. Where there are too many, those that were learned before are forgotten."""
        self._learned += len(found)
        if self._learned > KNOWN_VERSIONS_MAX:
            self._known, self._learned = self._configured, len(found)
        self._known = self._known.with_versions([_template(source) for source in found])


def _template(source: TemplateSource) -> Template:
    return Template(source.name, source.subject, source.text, source.html, source.sms_segments_max, source.sms_to_gsm)


async def keep(store: Store, templates: TemplateSet) -> None:
    """Keep the current version of each template, so that reminders may be pinned to it. Repeatable."""
    sources = [_source(templates.source(name), templates.version(name)) for name in templates]
    for part in parts(sources, KEPT_AT_ONCE_ROWS):
        await store.keep_templates(part)


def _source(one: Template, version: str) -> TemplateSource:
    return TemplateSource(one.name, version, one.subject, one.text, one.html, one.sms_segments_max, one.sms_to_gsm)
