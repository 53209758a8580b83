"""What can be said of a template without rendering it: which names it mentions, prints and decides by."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from jinja2 import nodes

from duly.content.times import FILTERS

__all__ = ["Look", "Mention", "Path", "look_at"]

#: The names of one chain, as in `data.unit.number`: ("data", "unit", "number").
Path: TypeAlias = tuple[str | int, ...]


class Mention(NamedTuple):
    """A chain of names, and the line on which it stands."""

    path: Path
    line: int


class Look(NamedTuple):
    """All chains of a template in its order, the longest only; those printed, also through filters; those shown as
    times, and whether anything is.
    """

    mentions: tuple[Mention, ...]
    printed: tuple[Mention, ...]
    timed: tuple[Mention, ...]
    shows_times: bool

    def decides_by(self, root: str) -> bool:
        """Whether the template does more with this name than print what is in it."""
        return sum(m.path[0] == root for m in self.mentions) > sum(m.path[0] == root for m in self.printed)


def look_at(tree: nodes.Template) -> Look:
    """Read the tree once."""
    outputs = (expression for output in tree.find_all(nodes.Output) for expression in output.nodes)
    printed = (_mention(_unfiltered(expression)) for expression in outputs)
    found: list[Mention] = []
    _gather(tree, found)
    times = [shown for shown in tree.find_all(nodes.Filter) if shown.name in FILTERS]
    timed = (_mention(shown.node) for shown in times if shown.node is not None)
    return Look(tuple(found), tuple(filter(None, printed)), tuple(filter(None, timed)), bool(times))


def _gather(node: nodes.Node, found: list[Mention]) -> None:
    mention = _mention(node)
    if mention:
        found.append(mention)
        return
    for child in node.iter_child_nodes():
        _gather(child, found)


def _mention(node: nodes.Node) -> Mention | None:
    path = _path(node)
    return Mention(path, node.lineno) if path else None


def _path(node: nodes.Node) -> Path | None:
    match node:
        case nodes.Name(name=name):
            return (name,)
        case nodes.Getattr(node=start, attr=name):
            return _longer(start, name)
        case nodes.Getitem(node=start, arg=nodes.Const(value=str() | int() as name)):
            return _longer(start, name)
    return None


def _longer(start: nodes.Node, name: str | int) -> Path | None:
    path = _path(start)
    return (*path, name) if path else None


def _unfiltered(expression: nodes.Node) -> nodes.Node:
    """The expression under filters that take no arguments; `default` takes one, and is a decision."""
    while isinstance(expression, nodes.Filter) and expression.node is not None and not expression.args:
        expression = expression.node
    return expression
