"""Adds schemas, partition specs and sort orders to a table under free ids, each one once.

Each step costs the same however many parts there are: a request may bring thousands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from headwater.service.iceberg.metadata.shapes import Plain, malformed

LAST_ADDED = -1


class AddedParts:
    def __init__(self, there: Sequence[Plain], id_field: str, meaning: Callable[[Plain], bytes]) -> None:
        """`meaning` is equal for parts that are the same but for their ids."""
        self._id_field = id_field
        self._meaning = meaning
        self._there: dict[int, Plain] = {one[id_field]: one for one in there}
        self._by_meaning: dict[bytes, int] = {}
        for id, one in self._there.items():
            self._by_meaning.setdefault(meaning(one), id)
        self._highest = max(self._there, default=-1)
        self._renamed: dict[int, int] = {}
        self._last: int | None = None

    @property
    def all(self) -> list[Plain]:
        return list(self._there.values())

    @property
    def first_id(self) -> int | None:
        return next(iter(self._there), None)

    def get(self, id: int) -> Plain:
        return self._there[id]

    def add(self, new: Plain) -> None:
        """Under the id that it asks for, if that is free; nothing is added if it is there already."""
        given: int = new.get(self._id_field, 0)
        meaning = self._meaning(new)
        chosen = self._by_meaning.get(meaning)
        if chosen is None:
            chosen = self._highest + 1 if given in self._there or given < 0 else given
            self._there[chosen] = {**new, self._id_field: chosen}
            self._by_meaning[meaning] = chosen
            self._highest = max(self._highest, chosen)
        self._renamed[given] = chosen
        self._last = chosen

    def remove(self, ids: Sequence[int], in_use: int | None) -> None:
        for id in ids:
            if id not in self._there:
                raise malformed(f"There is no {self._id_field} {id}.", self._id_field)
            if id == in_use:
                raise malformed(f"{self._id_field} {id} is in use.", self._id_field)
        for id in set(ids):
            gone = self._meaning(self._there.pop(id))
            if self._by_meaning.get(gone) == id:
                del self._by_meaning[gone]

    def meant(self, id: int) -> int:
        """The id that something has now, if it is there."""
        if id == LAST_ADDED:
            if self._last is None:
                raise malformed("-1 means the last one that was added, but none was added.", self._id_field)
            return self._last
        id = self._renamed.get(id, id)
        if id not in self._there:
            raise malformed(f"There is no {self._id_field} {id}.", self._id_field)
        return id


def fields_meaning(part: Plain) -> bytes:
    """What a partition spec or sort order means; the ids of partition fields are not part of it."""
    fields = [{name: value for name, value in field.items() if name != "field-id"} for field in part["fields"]]
    return msgspec.json.encode(fields, order="sorted")
