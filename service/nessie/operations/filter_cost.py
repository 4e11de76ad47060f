"""A CEL expression enters; how many steps it may take leaves, or why that cannot be told. Pure.

⚠ An expression holds the interpreter for as long as it runs, and a pattern is compiled each time it is met: `\\pL{200}` takes a
tenth of a second. So patterns are literals that can be weighed before anything runs, and what a comprehension repeats counts as
often as it may be repeated.
"""

from __future__ import annotations

import re
from math import prod

import msgspec

from headwater.schemas.errors import InvalidInput

PATTERN_CHARACTERS_MAX = 500
CHARACTER_STEPS = 10
CLASS_STEPS = 1_200
"""Of `\\w`, `\\pL` and the like: they are hundreds of ranges."""
MANY = 1_000_000

_COMPREHENSION = re.compile(r"\b(?:all|exists|exists_one|existsOne|map|filter|transformList|transformMap)\b")
_LITERAL = re.compile(r"""[rR][bB]?'[^']*'|[rR][bB]?"[^"]*"|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\"""", re.DOTALL)
_MATCHES = re.compile(r"\bmatches\b")
_PATTERN = re.compile(r"""matches\s*\(\s*(?P<pattern>[rR]?(?P<quote>['"]) *(?P=quote))\s*\)""")
_ESCAPE = re.compile(r"\\[xXuU0-7]")
_REPEATED = re.compile(r"\{\s*([0-9]*)\s*(?:,\s*([0-9]*)\s*)?\}")
_CLASS = re.compile(r"\\[pPwWdDsSbB]|\(\?[a-z]*i")


class FilterCost(msgspec.Struct, frozen=True):
    comprehensions: int
    patterns: tuple[tuple[int, int], ...] = ()
    """Of each its weight, and how many comprehensions it stands in."""

    def steps(self, items: int) -> int:
        """At most, where no list holds more than so many things."""
        total: int = items**self.comprehensions if self.comprehensions else 0
        for weight, depth in self.patterns:
            total += weight * items**depth
        return total


def cost_of(expression: str) -> FilterCost:
    code = without_literals(expression)
    comprehensions = len(_COMPREHENSION.findall(expression))
    if not _MATCHES.search(code):
        return FilterCost(comprehensions)
    repeated = _repeated(code)
    patterns = []
    for found in _MATCHES.finditer(code):
        pattern = _PATTERN.match(code, found.start())
        if pattern is None:
            raise _refused("the pattern of matches is not one plain text")
        weight = _weight(expression[pattern.start("pattern") : pattern.end("pattern")])
        patterns.append((weight, sum(start < found.start() < end for start, end in repeated)))
    return FilterCost(comprehensions, tuple(patterns))


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


def _repeated(code: str) -> list[tuple[int, int]]:
    """From where to where each comprehension repeats what it holds."""
    found = []
    for word in _COMPREHENSION.finditer(code):
        depth, end = 0, len(code)
        for position in range(word.end(), len(code)):
            depth += {"(": 1, ")": -1}.get(code[position], 0)
            if depth <= 0 and code[position] == ")":
                end = position
                break
        found.append((word.start(), end))
    return found


def _weight(literal: str) -> int:
    if len(literal) > PATTERN_CHARACTERS_MAX or (literal[0] in "\"'" and _ESCAPE.search(literal)):
        raise _refused(f"a pattern has over {PATTERN_CHARACTERS_MAX} characters, or ones that are written as numbers")
    counts = [int(high or low or "1") for low, high in _REPEATED.findall(literal)]
    times = min(MANY, prod(max(1, count) for count in counts))
    return times * (CHARACTER_STEPS * len(literal) + CLASS_STEPS * len(_CLASS.findall(literal)))


def _refused(message: str) -> InvalidInput:
    return InvalidInput(f"{message}.", field="filter", remedy="Write a simpler CEL expression.")
