"""Bounds how many steps a CEL expression may take on one item, or says why that cannot be bounded. Pure.

⚠ An expression holds the interpreter for as long as it runs, and the engine copies a variable whole each time it is named. So
what a comprehension repeats counts as often as it may be repeated, with the size of the variables that it names; comprehensions
that make lists are not taken, but for `filter`; patterns are literals that are weighed before anything runs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from headwater.schemas.errors import InvalidInput
from headwater.service.nessie.operations.pattern_cost import PatternCost, pattern_cost

PATTERN_CHARACTERS_MAX = 500
CODE_CHARACTERS_A_STEP = 10
"""How much of an expression is evaluated in one step, about a third of a microsecond."""
TEXT_CHARACTERS_A_STEP = 32
"""How much of a text is copied in one step."""
STEPS_MAX = 50_000
"""About 20 ms."""
STEPS_MAX_A_VALUE = 8
"""And as many more for each value that the filter is given: reading it costs as much."""

_COMPREHENSION = re.compile(r"\b(all|exists|exists_one|existsOne|filter)\b")
_LIST_MAKER = re.compile(r"\b(map|transformList|transformMap)\b\s*\(")
_VARIABLE = re.compile(r"(?<![\w.])(?:commit|operations|ref|refType|refMeta|entry|key)\b")
_LITERAL = re.compile(r"""[rR][bB]?'[^']*'|[rR][bB]?"[^"]*"|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\"""", re.DOTALL)
_MATCHES = re.compile(r"\bmatches\b")
_PATTERN = re.compile(r"""matches\s*\(\s*(?P<pattern>[rR]?(?P<quote>['"]) *(?P=quote))\s*\)""")
_ESCAPE = re.compile(r"\\[xXuU0-7]")


class Size(msgspec.Struct, frozen=True):
    """How much there is to look at."""

    items: int = 1
    """In the longest list."""
    characters: int = 0
    """In the longest text."""
    values: int = 1
    """In all, each text with its length."""


class Loop(msgspec.Struct, frozen=True):
    """The expression itself, or a comprehension in it: what is evaluated how often."""

    start: int
    end: int
    depth: int = 0
    """How many comprehensions repeat it; `filter` counts twice, for every element that it takes copies those before."""
    variables: int = 0
    """How many it names."""

    def steps(self, items: int, values: int) -> int:
        once = 1 + (self.end - self.start) // CODE_CHARACTERS_A_STEP + self.variables * values
        total: int = once * items**self.depth
        return total


class FilterCost(msgspec.Struct, frozen=True):
    loops: tuple[Loop, ...]
    patterns: tuple[tuple[PatternCost, int], ...] = ()
    """Each with the depth that it stands in."""
    written_items: int = 1
    """The longest list that the expression can hold itself."""
    joined: int = 1
    """How many texts or lists it can join to one."""

    @property
    def has_comprehensions(self) -> bool:
        return len(self.loops) > 1

    def steps(self, size: Size) -> int:
        """At most."""
        items = max(size.items, self.written_items) * self.joined
        total = sum(loop.steps(items, size.values * self.joined) for loop in self.loops)
        for pattern, depth in self.patterns:
            total += pattern.steps(size.characters * self.joined) * items**depth
        return total

    def allows(self, size: Size) -> bool:
        return self.steps(size) <= STEPS_MAX + STEPS_MAX_A_VALUE * size.values


def cost_of(expression: str) -> FilterCost:
    code = without_literals(expression)
    if _LIST_MAKER.search(code):
        raise _refused("map and transform make lists of any size; use exists, all or filter")
    spans = [(*_repeated(code, found), 2 if found.group() == "filter" else 1) for found in _COMPREHENSION.finditer(code)]
    loops = [_loop(code, 0, len(code), spans), *(_loop(code, start, end, spans) for start, end, _ in spans)]
    return FilterCost(
        tuple(loops), tuple(_patterns(expression, code, spans)), written_items=code.count(",") + 1, joined=code.count("+") + 1
    )


def _loop(code: str, start: int, end: int, spans: list[tuple[int, int, int]]) -> Loop:
    depth = sum(count for first, last, count in spans if first <= start and end <= last)
    return Loop(start, end, depth, len(_VARIABLE.findall(code, start, end)))


def size_of(value: Any) -> Size:
    """Size of a value that a filter is given."""
    if isinstance(value, str):
        return Size(1, len(value), 1 + len(value) // TEXT_CHARACTERS_A_STEP)
    parts: list[Any] = []
    if isinstance(value, Mapping):
        parts = [*value.keys(), *value.values()]
    elif isinstance(value, list | tuple):
        parts = list(value)
    sizes = [size_of(part) for part in parts]
    return Size(
        max([len(parts), 1, *(one.items for one in sizes)]),
        max([0, *(one.characters for one in sizes)]),
        1 + sum(one.values for one in sizes),
    )


def without_literals(expression: str) -> str:
    """Blanks instead of what stands in quotes; as long as before. What would make that wrong is refused."""
    code = _LITERAL.sub(_blanked, expression)
    if "'''" in expression or '"""' in expression or "//" in code:
        raise _refused("texts in three quotes and comments are not taken")
    return code


def _blanked(literal: re.Match[str]) -> str:
    text = literal.group()
    opened = len(text) - len(text.lstrip("rRbB")) + 1
    return text[:opened] + " " * (len(text) - opened - 1) + text[-1]


def _repeated(code: str, word: re.Match[str]) -> tuple[int, int]:
    """From where to where a comprehension repeats what it holds."""
    depth = 0
    for position in range(word.end(), len(code)):
        depth += {"(": 1, ")": -1}.get(code[position], 0)
        if depth <= 0 and code[position] == ")":
            return word.start(), position
    return word.start(), len(code)


def _patterns(expression: str, code: str, spans: list[tuple[int, int, int]]) -> list[tuple[PatternCost, int]]:
    found = []
    for word in _MATCHES.finditer(code):
        literal = _PATTERN.match(code, word.start())
        if literal is None:
            raise _refused("the pattern of matches is not one plain text")
        cost = pattern_cost(_pattern_text(expression[literal.start("pattern") : literal.end("pattern")]))
        found.append((cost, sum(count for start, end, count in spans if start < word.start() < end)))
    return found


def _pattern_text(literal: str) -> str:
    """What the literal stands for; a letter that an escape names counts like that letter."""
    is_raw = literal[0] in "rR"
    if len(literal) > PATTERN_CHARACTERS_MAX or (not is_raw and _ESCAPE.search(literal)):
        raise _refused(f"a pattern has over {PATTERN_CHARACTERS_MAX} characters, or ones that are written as numbers")
    return literal[2:-1] if is_raw else re.sub(r"\\(.)", r"\1", literal[1:-1], flags=re.DOTALL)


def _refused(message: str) -> InvalidInput:
    return InvalidInput(f"{message}.", field="filter", remedy="Write a simpler CEL expression.")
