"""Finds the delete files of a data file, by the rules of Iceberg's specification.

Equality deletes apply to data that is older (data sequence number < delete's), position deletes also to data of the same
commit (≤). Both apply within their partition and spec; equality deletes of an unpartitioned spec apply everywhere. A deletion
vector names its data file, and takes the place of that file's position deletes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable

from pyiceberg.manifest import DataFile, DataFileContent, ManifestEntry
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema

from headwater.service.planning.equality_ranges import may_delete_from
from headwater.service.planning.manifest_reader import content_range, referenced_data_file

_PATH_FIELD_ID = 2_147_483_546


class DeleteIndex:
    def __init__(self, specs: dict[int, PartitionSpec], schema: Schema) -> None:
        self._specs, self._schema = specs, schema
        self._global: list[tuple[int, DataFile]] = []
        self._equality: dict[Hashable, list[tuple[int, DataFile]]] = defaultdict(list)
        self._position: dict[Hashable, list[tuple[int, DataFile]]] = defaultdict(list)
        self._by_path: dict[str, list[tuple[int, DataFile]]] = defaultdict(list)
        self._vectors: dict[str, tuple[int, DataFile]] = {}

    def add(self, entry: ManifestEntry) -> None:
        file, seq = entry.data_file, _seq(entry)
        if file.content == DataFileContent.EQUALITY_DELETES:
            everywhere = self._specs[file.spec_id].is_unpartitioned()
            (self._global if everywhere else self._equality[_partition(file)]).append((seq, file))
            return
        path = referenced_data_file(file) or _only_path(file)
        if path is not None and content_range(file)[0] is not None:
            self._vectors[path] = (seq, file)
        elif path is not None:
            self._by_path[path].append((seq, file))
        else:
            self._position[_partition(file)].append((seq, file))

    def deletes_of(self, entry: ManifestEntry) -> list[DataFile]:
        file, seq = entry.data_file, _seq(entry)
        equality = [*self._global, *self._equality.get(_partition(file), ())]
        found = [one for at, one in equality if seq < at and may_delete_from(one, file, self._schema)]
        vector = self._vectors.get(file.file_path)
        if vector is not None and seq <= vector[0]:
            return [*found, vector[1]]
        found += [one for at, one in self._by_path.get(file.file_path, ()) if seq <= at]
        return found + [one for at, one in self._position.get(_partition(file), ()) if seq <= at]


def _seq(entry: ManifestEntry) -> int:
    return entry.sequence_number or 0


def _partition(file: DataFile) -> Hashable:
    return file.spec_id, tuple(file.partition._data)


def _only_path(file: DataFile) -> str | None:
    """The data file of position deletes, where their bounds leave only one."""
    lower, upper = (file.lower_bounds or {}).get(_PATH_FIELD_ID), (file.upper_bounds or {}).get(_PATH_FIELD_ID)
    return lower.decode() if lower is not None and lower == upper else None
