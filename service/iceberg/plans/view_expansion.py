"""Expands the inputs of a plan: views to the relations that they read, down to tables, all at the entries that are pinned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn, Protocol

import msgspec

from headwater.producer.plans.plan_rows import PlanInput
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import InvalidInput, TableNotFound
from headwater.service.iceberg.operations.lake_branch import VIEW, LakeBranch, LakeState, shown
from headwater.service.iceberg.plans.planned_inputs import BySource, find_input
from headwater.service.iceberg.plans.view_relations import BaseRelation, ReadByView, reads_of, sql_size

DEPTH_MAX = 16
SQL_CHARACTERS_MAX = 512 * 1024
"""Total over all views of a plan."""
_OPEN = -1
"""In place of a height: the view is being expanded."""


class PinnedBranch(msgspec.Struct, frozen=True):
    """A reference as the plan reads it."""

    branch: LakeBranch
    state: LakeState
    pin: int
    """Its number among the plan's pins."""


class Reader(Protocol):
    """Who plans. ⚠ Views give no rights: a caller needs those over all that they read."""

    def types(self, catalog: str, key: KeyPath) -> frozenset[str]:
        """What the caller may read there."""

    def refuse(self, catalog: str, key: KeyPath) -> NoReturn:
        """The error of what may not be read, whether it is there or not."""


class Realm(Protocol):
    def has_catalog(self, name: str) -> bool: ...

    def pinned(self, catalog: str) -> PinnedBranch:
        """The default branch of another catalog."""


class Expansion:
    """One per plan, whose inputs it gathers."""

    def __init__(self, realm: Realm, reader: Reader, inputs_max: int, by_source: BySource | None = None) -> None:
        self._realm, self._reader, self._inputs_max, self._by_source = realm, reader, inputs_max, by_source
        self.inputs: list[PlanInput] = []
        self._numbers: dict[tuple[int, KeyPath, int | None], int] = {}
        self._sql_left = SQL_CHARACTERS_MAX
        self._heights: dict[tuple[int, KeyPath], int] = {}
        """How many views lie below a view that was expanded, itself among them."""

    def add(self, one: PlanInput) -> int:
        """Its number. An input that a caller has named twice is one for views."""
        if len(self.inputs) >= self._inputs_max:
            raise InvalidInput(
                f"the plan and what its views read are more than {self._inputs_max} inputs.",
                field="inputs",
                remedy="Divide the plan.",
            )
        self.inputs.append(one)
        number = len(self.inputs) - 1
        self._numbers.setdefault((one.pin, one.key, one.snapshot_id), number)
        return number

    def expand(self, at: PinnedBranch, number: int, above: tuple[KeyPath, ...] = ()) -> int:
        """What a view reads, and what those read; how many views are nested. Each view once."""
        one = self.inputs[number]
        place = (one.pin, one.key)
        if one.type != VIEW:
            return 0
        known = self._heights.get(place)
        if known == _OPEN:
            raise _cycle((*above, one.key))
        height = known or 1
        if known is None:
            self._heights[place] = _OPEN
            view = at.branch.load_metadata(one.key, one.metadata_location).view
            self._take_sql(sql_size(view))
            reads: list[int] = []
            for read in reads_of(view, one.catalog, self._realm.has_catalog):
                there, found = self._find(at, one, read)
                below = self._numbers.get((found.pin, found.key, found.snapshot_id))
                below = self.add(found) if below is None else below
                reads.append(below)
                height = max(height, 1 + self.expand(there, below, (*above, one.key)))
            self._heights[place] = height
            self.inputs[number] = msgspec.structs.replace(one, reads=tuple(dict.fromkeys(reads)))
        else:
            twin = self.inputs[self._numbers[one.pin, one.key, None]]
            self.inputs[number] = msgspec.structs.replace(one, reads=twin.reads)
        if len(above) + height > DEPTH_MAX:
            raise InvalidInput(f"views are nested deeper than {DEPTH_MAX}.", field="inputs", remedy="Nest them less deeply.")
        return height

    def _take_sql(self, size: int) -> None:
        self._sql_left -= size
        if self._sql_left < 0:
            raise InvalidInput(
                f"the plan's views have more than {SQL_CHARACTERS_MAX} characters of SQL.",
                field="inputs",
                remedy="Divide the plan, or declare the views' base relations.",
            )

    def _find(self, at: PinnedBranch, view: PlanInput, read: ReadByView) -> tuple[PinnedBranch, PlanInput]:
        """⚠ Rights are asked before anything is looked up."""
        readable = [(name, types) for name in read.names if (types := self._reader.types(name.catalog, name.path))]
        for name, types in readable:
            there = at if name.catalog == view.catalog else self._realm.pinned(name.catalog)
            content = there.state.get(name.path)
            if content is not None and content.type in types:
                found = find_input(there.branch, there.state, name.path, read.snapshot_id, self._by_source)
                return there, msgspec.structs.replace(found, pin=there.pin, is_named=False)
        if not readable:
            self._reader.refuse(read.names[0].catalog, read.names[0].path)
        raise TableNotFound(
            f"{shown(view.key)} reads {_told(read.names)}, which is not there.",
            field="inputs",
            remedy="Create it, or correct the view.",
        )


def _cycle(keys: Sequence[KeyPath]) -> InvalidInput:
    names = " → ".join(shown(key) for key in keys)
    return InvalidInput(f"views read each other: {names[:400]}.", field="inputs", remedy="Break the cycle.")


def _told(names: Sequence[BaseRelation]) -> str:
    return " or ".join(f"{one.catalog}:{shown(one.path)}" for one in names)[:300]
