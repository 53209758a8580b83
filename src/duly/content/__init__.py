"""What a delivery says: templates, compiled once and rendered in a sandbox.

See `duly.content.templates` for the names that a template may use and for its limits.
"""

from duly.content.summaries import LATE_SUMMARY
from duly.content.templates import Template, TemplateSet

__all__ = ["LATE_SUMMARY", "Template", "TemplateSet"]
