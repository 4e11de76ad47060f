"""Schemas, partition specs or sort orders of a table enter, and new ones; they leave under ids that are free, each one once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headwater.service.iceberg.metadata.shapes import Plain, malformed

LAST_ADDED = -1


class AddedParts:
    def __init__(self, there: Sequence[Plain], id_field: str, same: Callable[[Plain, Plain], bool]) -> None:
        self._there = list(there)
        self._id_field = id_field
        self._same = same
        self._renamed: dict[int, int] = {}
        self._last: int | None = None

    def add(self, new: Plain) -> list[Plain]:
        """All of them, with the new one unless it was there already."""
        given: int = new.get(self._id_field, 0)
        for one in self._there:
            if self._same(one, new):
                self._note(given, one[self._id_field])
                return self._there
        taken = {one[self._id_field] for one in self._there}
        chosen = max(taken, default=-1) + 1 if given in taken or given < 0 else given
        self._there = [*self._there, {**new, self._id_field: chosen}]
        self._note(given, chosen)
        return self._there

    def remove(self, ids: Sequence[int], in_use: int | None) -> list[Plain]:
        known = {one[self._id_field] for one in self._there}
        for id in ids:
            if id not in known:
                raise malformed(f"There is no {self._id_field} {id}.", self._id_field)
            if id == in_use:
                raise malformed(f"{self._id_field} {id} is in use.", self._id_field)
        self._there = [one for one in self._there if one[self._id_field] not in ids]
        return self._there

    def meant(self, id: int) -> int:
        """The id that something has now, if it is there."""
        if id == LAST_ADDED:
            if self._last is None:
                raise malformed("-1 means the last one that was added, but none was added.", self._id_field)
            return self._last
        id = self._renamed.get(id, id)
        if all(one[self._id_field] != id for one in self._there):
            raise malformed(f"There is no {self._id_field} {id}.", self._id_field)
        return id

    def _note(self, given: int, chosen: int) -> None:
        self._renamed[given] = chosen
        self._last = chosen


def same_fields(one: Plain, other: Plain) -> bool:
    """Of partition specs and sort orders; the ids of partition fields are no part of what they mean."""
    return [_meaning(field) for field in one["fields"]] == [_meaning(field) for field in other["fields"]]


def _meaning(field: Plain) -> Plain:
    return {name: value for name, value in field.items() if name != "field-id"}
