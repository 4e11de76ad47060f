"""The versions of a Delta table, from the names in its log: which commits are there, and which checkpoint each one needs.

The log is read directly: `N.json` is the commit of version N, and a checkpoint holds the combined result of all versions up to
its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from headwater.schemas.errors import MalformedMetadata
from headwater.streaming.files.formats.delta_logs import check_protocol, json_actions, parquet_actions
from headwater.streaming.files.formats.reading import METADATA_BYTES_MAX, ReadsFiles
from headwater.streaming.files.kinds import FoundFile

LOG_FOLDER = "_delta_log"
_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?(?:\.[0-9a-f-]{36})?\.(?:parquet|json)")


class DeltaVersions(msgspec.Struct, frozen=True):
    """The readable versions, oldest first, without a gap."""

    commits: Sequence[FoundFile]
    first: int
    checkpoints: Mapping[int, Sequence[str]]
    """Version → the parts of its checkpoint, for complete checkpoints."""

    @property
    def newest(self) -> int:
        return self.first + len(self.commits) - 1

    def commit(self, version: int) -> FoundFile:
        return self.commits[version - self.first]

    def checkpoint_of(self, version: int) -> int | None:
        """The newest checkpoint that is not newer than the version."""
        return max((one for one in self.checkpoints if one <= version), default=None)


def delta_versions(files: ReadsFiles, root: str) -> DeltaVersions | None:
    """None if the folder holds no Delta table. ⚠ A gap in the log is an error: what lies after it cannot be known."""
    commits: dict[int, FoundFile] = {}
    parts: dict[int, dict[str, list[str]]] = {}
    folder = f"{root.rstrip('/')}/{LOG_FOLDER}/"
    for page in files.list(folder):
        for file in page:
            name = file.location.rpartition("/")[2]
            if file.size <= 0 or not file.location.endswith(f"{LOG_FOLDER}/{name}"):
                continue
            if commit := _COMMIT.fullmatch(name):
                commits[int(commit[1])] = file
            elif found := _CHECKPOINT.fullmatch(name):
                parts.setdefault(int(found[1]), {}).setdefault(found[3] or name, []).append(file.location)
    checkpoints = {version: whole for version, kinds in parts.items() if (whole := _whole(kinds)) is not None}
    if not commits and not checkpoints:
        return None
    return _without_a_hole(root, commits, checkpoints)


def _whole(kinds: Mapping[str, Sequence[str]]) -> Sequence[str] | None:
    """⚠ A multi-part checkpoint counts once its last part is there."""
    for parts_of_it, found in sorted(kinds.items()):
        if not parts_of_it.isdigit() or int(parts_of_it) == len(found):
            return sorted(found)
    return None


def _without_a_hole(root: str, commits: Mapping[int, FoundFile], checkpoints: Mapping[int, Sequence[str]]) -> DeltaVersions:
    newest = max(commits, default=-1)
    first = newest
    while first - 1 in commits:
        first -= 1
    if newest < 0 or (first > 0 and not any(first - 1 <= one <= newest for one in checkpoints)):
        raise MalformedMetadata(
            f"the log of {root[:200]} has a gap before version {first}, and no checkpoint after it.", field="location"
        )
    return DeltaVersions([commits[one] for one in range(first, newest + 1)], first, checkpoints)


def table_id(files: ReadsFiles, versions: DeltaVersions, *, since: int = -1, known: str = "") -> str:
    """The table's own id, from its newest metadata; `known` is its id at version `since`, so that only later commits are read.
    `Unsupported` for a table that needs a feature not known here: its protocol may be older than its metadata."""
    checkpoint = versions.checkpoint_of(versions.newest)
    floor = max(versions.first - 1, since if known else -1, -1 if checkpoint is None else checkpoint)
    facts = _TableFacts()
    for version in range(versions.newest, floor, -1):
        location = versions.commit(version).location
        facts = facts.older(location, json_actions(location, files.read(location, METADATA_BYTES_MAX)))
        if facts.id and facts.has_protocol:
            return facts.id
    if known and since >= floor:  # its protocol was known when its id was
        return facts.id or known
    for location in versions.checkpoints.get(-1 if checkpoint is None else checkpoint, ()):
        facts = facts.older(location, _checkpoint_actions(location, files.read(location, METADATA_BYTES_MAX)))
    if facts.id and facts.has_protocol:
        return facts.id
    raise MalformedMetadata(
        f"the log of {versions.commits[-1].location[:200]} names no table or no protocol.", field="location"
    )


def _checkpoint_actions(location: str, content: bytes) -> Iterator[dict[str, Any]]:
    if location.endswith(".json"):
        return json_actions(location, content)
    return parquet_actions(location, content, ("metaData", "protocol"))


class _TableFacts(msgspec.Struct, frozen=True):
    """What the commits read so far say about the table, newest first."""

    id: str = ""
    has_protocol: bool = False

    def older(self, location: str, actions: Iterator[dict[str, Any]]) -> _TableFacts:
        id, has_protocol = "", self.has_protocol
        for action in actions:
            protocol, metadata = action.get("protocol"), action.get("metaData")
            if isinstance(protocol, dict) and not self.has_protocol:
                check_protocol(location, protocol)
                has_protocol = True
            if isinstance(metadata, dict):
                id = str(metadata.get("id") or id)
        return _TableFacts(self.id or id, has_protocol)
