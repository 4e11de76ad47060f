"""Compiles and caches CEL filters, bounded in size and work.

⚠ Comprehensions inside comprehensions multiply: an expression of 300 characters can ask for 10^40 steps. So the cost at each
thing is bounded before the expression is evaluated there; listings look at the time between two things.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Mapping
from typing import Any

from headwater.schemas.errors import InvalidInput
from headwater.schemas.extras import needs_extra
from headwater.service.nessie.operations.filter_cost import Size, cost_of, size_of, without_literals

EXPRESSION_CHARACTERS_MAX = 2_000
FILTER_SECONDS_MAX = 2.0
"""For one page that filters: it ends early, with a token, rather than run on."""
KEPT_FILTERS_MAX = 512

_FIELD = re.compile(r"(?<![\w.])(commit|ref|refMeta|entry|key)\.(\w+)")

KEY_FIELDS = frozenset({"key", "keyElements", "encodedKey", "namespace", "namespaceElements", "name"})
COMMIT_FIELDS = frozenset(
    {
        "hash", "committer", "author", "authors", "allAuthors", "signedOffBy", "allSignedOffBy", "message", "commitTime",
        "authorTime", "properties", "allProperties", "parentCommitHashes",
    }
)  # fmt: skip
META_FIELDS = frozenset({"numCommitsAhead", "numCommitsBehind", "commitMetaOfHEAD", "commonAncestorHash", "numTotalCommits"})
FIELDS: Mapping[str, frozenset[str]] = {
    "commit": COMMIT_FIELDS,
    "ref": frozenset({"name", "hash", "type", "metadata"}),
    "refMeta": META_FIELDS,
    "entry": KEY_FIELDS | {"contentType"},
    "key": KEY_FIELDS,
}


class CelFilter:
    """What one kind of listing is filtered by. Thread-safe."""

    def __init__(self, expression: str, names: frozenset[str]) -> None:
        if len(expression) > EXPRESSION_CHARACTERS_MAX:
            raise _refused(f"the filter has {len(expression)} characters; at most {EXPRESSION_CHARACTERS_MAX} are taken")
        with needs_extra("a filter", "nessie"):
            import cel  # with the first filter: it brings a command line along, and takes a fifth of a second
        try:
            self._program = cel.compile(expression)
            used: Collection[str] = self._program.variables()
        except ValueError as error:
            raise _refused(" ".join(str(error).split())[:400]) from None
        self.names = names & frozenset(used)
        self._cost = cost_of(expression)
        self._check_cost(Size())
        _check_names(expression, used, names, allows_more=self._cost.has_comprehensions)

    def matches(self, variables: Mapping[str, Any]) -> bool:
        """What a thing does not have, it does not match: a property that a commit lacks is not a fault of the filter."""
        self._check_cost(size_of(variables))
        try:
            found = self._program.execute(dict(variables))
        except (KeyError, IndexError):
            return False
        except (RuntimeError, TypeError, ValueError, OverflowError, ZeroDivisionError, ArithmeticError) as error:
            raise _refused(" ".join(str(error).split())[:400]) from None
        if not isinstance(found, bool):
            raise _refused(f"the filter gives {type(found).__name__}, not true or false")
        return found

    def _check_cost(self, size: Size) -> None:
        if not self._cost.allows(size):
            raise _refused("the filter would take too many steps")


@functools.lru_cache(maxsize=KEPT_FILTERS_MAX)
def compiled(expression: str, names: frozenset[str]) -> CelFilter:
    return CelFilter(expression, names)


COMMIT_NAMES = frozenset({"commit", "operations"})
ENTRY_NAMES = frozenset({"entry"})
KEY_NAMES = frozenset({"key"})
REFERENCE_NAMES = frozenset({"ref", "refType", "refMeta", "commit"})


def _check_names(expression: str, used: Collection[str], names: frozenset[str], *, allows_more: bool) -> None:
    """Names that a comprehension binds are among those that are used, so with one of them only fields can be checked."""
    unknown = sorted(set(used) - names)
    if unknown and not allows_more:
        raise _refused(f"there is no {unknown[0]!r}; there is {', '.join(sorted(names))}")
    for name, field in _FIELD.findall(without_literals(expression)):
        if name in names and field not in FIELDS[name]:
            raise _refused(f"{name} has no field {field!r}; it has {', '.join(sorted(FIELDS[name]))}")


def _refused(message: str) -> InvalidInput:
    return InvalidInput(f"{message}.", field="filter", remedy="Write a CEL expression that is true or false.")
