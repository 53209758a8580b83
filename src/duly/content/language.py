"""The language of templates: Jinja2, cut down until every rendering is bounded and repeatable.

A template's author is the operator; the data is not. So data is only ever data (it is never compiled,
and is escaped in HTML), and a value that it brings cannot keep a rendering busy:

- the statements are `if`, `for`, `set`, `with`, `filter` and `raw`. Macros, blocks, imports and
  recursive loops are refused when the template is read, because they can repeat without a loop;
- every loop is counted: one rendering takes at most `STEPS_MAX` turns, in all loops together;
- `**` and the repetition of text or lists are bounded, before anything is computed;
- there is no clock and no chance: `random`, `lipsum` and `now()` are not there, so that the same row
  gives the same bytes.

What comes out is bounded too, but only once it is made: an author who pads or joins by a width or a text
from the data (`center(data.width)`) lets the data choose how much memory that takes for a moment.

Three additions to Jinja2. In `data.items` a key of the data comes before a method of Python's dict. What
is not a value (null, a method) can be tested, but not printed: nobody is greeted as "None". And there are
filters for dates and times, see `duly.content.times`.

Source of the sandbox: https://jinja.palletsprojects.com/en/stable/sandbox/
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date
from typing import Any, Final

from jinja2 import StrictUndefined, TemplateSyntaxError, Undefined, nodes, pass_context
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from duly.content.times import FILTERS, STYLES

__all__ = ["STEPS", "STEPS_MAX", "Environment", "NotPrintable", "TooMuch"]

STEPS_MAX: Final = 10_000
RANGE_ITEMS_MAX: Final = 1_000
REPEATED_ITEMS_MAX: Final = 100_000
EXPONENT_MAX: Final = 64
#: Where a rendering keeps its count of turns. No template can write a name with a space in it.
STEPS: Final = "steps taken"

_REFUSED: Final[dict[type[nodes.Node], str]] = {
    nodes.Macro: "macro",
    nodes.CallBlock: "call",
    nodes.Block: "block",
    nodes.Extends: "extends",
    nodes.Include: "include",
    nodes.Import: "import",
    nodes.FromImport: "from",
}
_CLOCKS: Final = frozenset({"now", "utcnow", "today"})
_PLAIN: Final = frozenset({str, int, float, bool})


class NotPrintable(Exception):
    """Null, or a method of Python's, was to be printed."""


class TooMuch(Exception):
    """The rendering went over a limit. The text says which."""


class Missing(StrictUndefined):
    """A name that is not there. The error's text is `name: ...` or `hint: ...`; see `faults`."""

    @property
    def _undefined_message(self) -> str:
        if self._undefined_hint:
            return f"hint: {self._undefined_hint}"
        return f"name: {self._undefined_name}"


class Environment(ImmutableSandboxedEnvironment):
    """The sandbox. One for text, one with `autoescape` for HTML."""

    intercepted_binops = frozenset({"*", "**"})

    def __init__(self, *, autoescape: bool) -> None:
        super().__init__(autoescape=autoescape, undefined=Missing, finalize=_printable, keep_trailing_newline=True)
        self.globals = {"range": _range}
        self.filters |= {"counted": _counted, **FILTERS}
        del self.filters["random"]

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        for node in tree.find_all(tuple(_REFUSED)):
            raise TemplateSyntaxError(f"{{% {_REFUSED[type(node)]} %}} is not part of the language", node.lineno)
        for loop in tree.find_all(nodes.For):
            _count(loop, self)
        for shown in tree.find_all(nodes.Filter):
            _check_style(shown)
        return tree

    def getattr(self, obj: Any, attribute: str) -> Any:
        """A key of the data comes before a method of Python's dict."""
        if type(obj) is dict:
            try:
                return obj[attribute]
            except KeyError:
                pass
        return super().getattr(obj, attribute)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """No clock: a date's `now` and `today` are out of reach."""
        return super().is_safe_attribute(obj, attr, value) and not (isinstance(obj, date) and attr in _CLOCKS)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Bound what grows: powers, and repeated text and lists."""
        if operator == "**":
            _check_power(left, right)
        else:
            _check_repetition(left, right)
        return super().call_binop(context, operator, left, right)


def _count(loop: nodes.For, environment: Environment) -> None:
    if loop.recursive:
        raise TemplateSyntaxError("recursive loops are not part of the language", loop.lineno)
    counted = nodes.Filter(loop.iter, "counted", [], [], None, None)
    loop.iter = counted.set_lineno(loop.lineno).set_environment(environment)


def _check_style(shown: nodes.Filter) -> None:
    """Find a mistyped style before any row does; one that the data brings is found when it comes."""
    if shown.name not in FILTERS:
        return
    styles = [style.value for style in shown.args if isinstance(style, nodes.Const)]
    surplus = len(shown.args) > 1 or shown.kwargs or shown.dyn_args or shown.dyn_kwargs
    if surplus or not set(STYLES).issuperset(styles):
        raise TemplateSyntaxError(f"{shown.name} takes one of {', '.join(STYLES)}, in quotes, or nothing", shown.lineno)


@pass_context
def _counted(context: Context, items: Iterable[Any]) -> Iterator[Any]:
    taken: list[int] = context[STEPS]
    for item in items:
        taken[0] += 1
        if taken[0] > STEPS_MAX:
            raise TooMuch(f"its loops take more than {STEPS_MAX:,} turns")
        yield item


def _printable(value: Any) -> Any:
    if type(value) in _PLAIN or isinstance(value, (str, Undefined)):
        return value
    if value is None or callable(value):
        raise NotPrintable
    return value


def _range(*bounds: int) -> range:
    numbers = range(*bounds)
    if len(numbers) > RANGE_ITEMS_MAX:
        raise TooMuch(f"a range has more than {RANGE_ITEMS_MAX:,} numbers")
    return numbers


def _check_power(base: Any, exponent: Any) -> None:
    if isinstance(base, int) and isinstance(exponent, int) and exponent > EXPONENT_MAX:
        raise TooMuch(f"an exponent is over {EXPONENT_MAX}")


def _check_repetition(left: Any, right: Any) -> None:
    for items, times in ((left, right), (right, left)):
        if isinstance(items, (str, list, tuple)) and isinstance(times, int) and len(items) * times > REPEATED_ITEMS_MAX:
            raise TooMuch(f"text or a list is repeated to over {REPEATED_ITEMS_MAX:,} items")
