"""Bounds what compiling a regular expression and matching a text with it may cost. Pure.

⚠ A pattern is compiled each time it is met, and its repetitions are written out: `\\pL{200}` takes a tenth of a second. One
step is about a third of a microsecond.
"""

from __future__ import annotations

import re

import msgspec

from headwater.schemas.errors import InvalidInput

CHARACTER_STEPS = 1
ANY_STEPS = 12
"""Cost of `.` and `[^a]`: every encoding of a character that is not excluded."""
FOLDED_STEPS = 30
"""Cost of a character whose case is ignored."""
ESCAPE_STEPS = {"d": 80, "D": 80, "s": 30, "S": 30, "b": 300, "B": 300, "w": 1_500, "W": 1_500, "p": 1_500, "P": 1_500}
"""`\\w` and `\\pL` are hundreds of ranges."""
SMALL_STATES = 12
"""Up to so many a text is read in one table look-up a character; beyond, each character may cost a step for ten states."""
STEPS_MAX = 10**12

_REPEATED = re.compile(r"\{\s*([0-9]*)\s*(?:,\s*([0-9]*)\s*)?\}")
_GROUP = re.compile(r"\((?:\?P?<\w+>|\?([a-zA-Z-]*)[:)])?")
_ATOM = re.compile(r"\\[pP]\{[^}]*\}|\\[pP].|\\.|.", re.DOTALL)


class PatternCost(msgspec.Struct, frozen=True):
    compile_steps: int
    states: int

    def steps(self, characters: int) -> int:
        """Maximum cost of compiling the pattern and searching a text of that many characters."""
        per_character = max(1, self.states // 10) if self.states > SMALL_STATES else 0
        return self.compile_steps + characters * per_character + characters // 50


def pattern_cost(pattern: str) -> PatternCost:
    groups: list[list[PatternCost]] = [[]]
    flags = "".join(found.group(1) or "" for found in _GROUP.finditer(pattern))
    if "x" in flags:
        raise InvalidInput("a pattern with the flag x cannot be weighed.", field="filter", remedy="Write it without blanks.")
    letter_steps = FOLDED_STEPS if "i" in flags else CHARACTER_STEPS
    at = 0
    while at < len(pattern):
        repeated = _REPEATED.match(pattern, at)
        if repeated is not None:
            _repeat_last(groups[-1], max(int(count or 0) for count in repeated.groups()) + 1)
            at = repeated.end()
        elif pattern[at] in "*+?":  # a loop, not a copy
            at += 1
        elif pattern[at] == "(":
            opened = _GROUP.match(pattern, at)
            at = at + 1 if opened is None else opened.end()
            if pattern[at - 1] != ")":
                groups.append([])
        elif pattern[at] == ")":
            closed = groups.pop() if len(groups) > 1 else []
            groups[-1].append(_sum(closed))
            at += 1
        else:
            end = _class_end(pattern, at) if pattern[at] == "[" else _atom_end(pattern, at)
            groups[-1].append(PatternCost(_atom_steps(pattern[at:end], letter_steps), 1))
            at = end
    return _sum([one for group in groups for one in group])


def _repeat_last(group: list[PatternCost], times: int) -> None:
    if group:
        last = group.pop()
        group.append(PatternCost(min(STEPS_MAX, last.compile_steps * times), min(STEPS_MAX, last.states * times)))


def _sum(costs: list[PatternCost]) -> PatternCost:
    return PatternCost(sum(one.compile_steps for one in costs), sum(one.states for one in costs))


def _atom_end(pattern: str, at: int) -> int:
    atom = _ATOM.match(pattern, at)
    return at + 1 if atom is None else atom.end()


def _class_end(pattern: str, at: int) -> int:
    """Behind the bracket that closes the one at `at`; classes nest."""
    depth = 0
    while at < len(pattern):
        depth += {"[": 1, "]": -1}.get(pattern[at], 0)
        at = _atom_end(pattern, at)
        if depth == 0:
            break
    return at


def _atom_steps(atom: str, letter_steps: int) -> int:
    """Cost of one character, escape or class."""
    total = ANY_STEPS if atom == "." or "[^" in atom else 0
    for part in _ATOM.findall(atom):
        total += ESCAPE_STEPS.get(part[1:2], letter_steps) if part[0] == "\\" else letter_steps
    return total
