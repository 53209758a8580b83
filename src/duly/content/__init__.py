"""What a delivery says: templates, compiled once and rendered in a sandbox.

See `duly.content.templates` for the names that a template may use and for its limits.
"""

from duly.content.templates import Template, TemplateSet

__all__ = ["Template", "TemplateSet"]
