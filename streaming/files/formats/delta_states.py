"""What a Delta table consists of at one version: its schema and its data files, by its log up to there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from headwater.schemas.errors import MalformedMetadata, Unsupported
from headwater.streaming.files.formats.delta_logs import check_protocol, json_actions, parquet_actions
from headwater.streaming.files.formats.delta_versions import LOG_FOLDER, DeltaVersions
from headwater.streaming.files.formats.reading import METADATA_BYTES_MAX, ReadsFiles

FILES_MAX = 200_000
"""⚠ All are held in memory at once, each with its statistics: which ones are still there is known only at the log's end."""
_KINDS = ("add", "remove", "metaData", "protocol", "sidecar")
Action = dict[str, Any]


class DeltaState(msgspec.Struct, frozen=True):
    schema: Action
    """The struct of its columns, as Delta writes it."""
    adds: list[Action]


def delta_state(files: ReadsFiles, root: str, versions: DeltaVersions, version: int) -> DeltaState:
    """⚠ Later actions win: a file is what was last added under its path and deletion vector, unless that was removed."""
    active: dict[tuple[str, str], Action] = {}
    schema: Action | None = None
    for location, action in _actions(files, root, versions, version):
        check_protocol(location, action.get("protocol"))
        if removed := action.get("remove"):
            active.pop(_identity(location, removed), None)
        if added := action.get("add"):
            active[_identity(location, added)] = added
        if metadata := action.get("metaData"):
            schema = _schema(location, metadata)
        if len(active) > FILES_MAX:
            raise Unsupported(f"{root[:200]} has more than {FILES_MAX} files.", field="index", remedy="Compact it (OPTIMIZE).")
    if schema is None:
        raise MalformedMetadata(f"the log of {root[:200]} has no schema.", field="location")
    return DeltaState(schema, list(active.values()))


def _actions(files: ReadsFiles, root: str, versions: DeltaVersions, version: int) -> Iterator[tuple[str, Action]]:
    """Oldest first: the checkpoint, then the commits after it."""
    checkpoint = versions.checkpoint_of(version)
    for location in versions.checkpoints.get(-1 if checkpoint is None else checkpoint, ()):
        for action in _of_checkpoint(files, location):
            yield location, action
            if sidecar := action.get("sidecar"):
                named = f"{root}/{LOG_FOLDER}/_sidecars/{str(sidecar.get('path', '')).rpartition('/')[2]}"
                yield from ((named, one) for one in _of_checkpoint(files, named))
    for number in range(0 if checkpoint is None else checkpoint + 1, version + 1):
        location = versions.commit(number).location
        yield from ((location, one) for one in json_actions(location, files.read(location, METADATA_BYTES_MAX)))


def _of_checkpoint(files: ReadsFiles, location: str) -> Iterator[Action]:
    content = files.read(location, METADATA_BYTES_MAX)
    return json_actions(location, content) if location.endswith(".json") else parquet_actions(location, content, _KINDS)


def _identity(location: str, file: Action) -> tuple[str, str]:
    vector = file.get("deletionVector") or {}
    if not isinstance(file.get("path"), str):
        raise MalformedMetadata(f"a file in {location[:200]} has no path.", field="location")
    return file["path"], f"{vector.get('storageType', '')}{vector.get('pathOrInlineDv', '')}@{vector.get('offset')}"


def _schema(location: str, metadata: Action) -> Action:
    try:
        found = msgspec.json.decode(metadata["schemaString"])
        fields = found["fields"]
    except (KeyError, TypeError, msgspec.DecodeError) as error:
        raise MalformedMetadata(f"{location[:200]} has no schema that can be read.", field="location") from error
    if not isinstance(fields, list) or not all(isinstance(one, dict) and "name" in one for one in fields):
        raise MalformedMetadata(f"{location[:200]} has no schema that can be read.", field="location")
    return dict(found)
