"""The template of summaries that everybody has: what each of the late ones would have said, one below the other.

A template of that name in the configuration takes its place. It finds in `data.reminders`, in the order in which they
were due, for each: `reminder` (the caller's key), `occurrence`, `due_at` (as text), `template`, `subject`, `text` and
`data`.
"""

from __future__ import annotations

from typing import Final

from duly.content.templates import Template
from duly.core.folding import TEMPLATE

__all__ = ["LATE_SUMMARY"]

_SUBJECT: Final = """\
{% if data.reminders | length == 1 %}{{ data.reminders[0].subject }}\
{% else %}{{ data.reminders | length }} reminders{% endif %}"""

_TEXT: Final = """\
{% for one in data.reminders %}\
{% if not loop.first %}

{% endif %}\
{% if one.subject and data.reminders | length > 1 %}{{ one.subject }}
{% endif %}\
{{ one.text | trim }}\
{% endfor %}
"""

LATE_SUMMARY: Final = Template(TEMPLATE, _SUBJECT, _TEXT)
