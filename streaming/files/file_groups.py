"""What a dry run would delete, for people to read: by table and kind, with a few files of each."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable

import msgspec

from headwater.streaming.files.kinds import FileKind, FileRef

EXAMPLES_MAX = 3
GROUPS_MAX = 200
OTHERS = "(others)"
_TABLE_FOLDERS = ("data", "metadata")


class FileGroup(msgspec.Struct, kw_only=True):
    """Files of one kind of one table."""

    table: str
    """Its folder below the storage root, or its key if that is known."""
    kind: FileKind
    files: int = 0
    bytes: int = 0
    """Total size of the files whose size is known."""
    confirmed: int = 0
    """Those that would be deleted now: an earlier sweep has found them unused too, or they were named."""
    examples: list[str] = []


def file_groups(
    files: Iterable[FileRef], table_of: Callable[[str], str], confirmed: Container[str] | None = None
) -> list[FileGroup]:
    """In order of table and kind. The first tables are listed one by one, all others added up under one name; `confirmed`
    defaults to all of them."""
    groups: dict[tuple[str, FileKind], FileGroup] = {}
    for file in files:
        key = (table_of(file.location), file.kind)
        if key not in groups and len(groups) >= GROUPS_MAX:
            key = (OTHERS, file.kind)
        group = groups.setdefault(key, FileGroup(table=key[0], kind=file.kind, examples=[]))
        group.files += 1
        group.bytes += file.size or 0
        group.confirmed += confirmed is None or file.location in confirmed
        if len(group.examples) < EXAMPLES_MAX:
            group.examples.append(file.location)
    return [groups[key] for key in sorted(groups, key=lambda key: (key[0] == OTHERS, key))]


def merged_groups(groups: Iterable[FileGroup]) -> list[FileGroup]:
    """Merges the groups of several listings."""
    merged: dict[tuple[str, FileKind], FileGroup] = {}
    for group in groups:
        key = (group.table, group.kind)
        if key not in merged and len(merged) >= GROUPS_MAX:
            key = (OTHERS, group.kind)
        into = merged.setdefault(key, FileGroup(table=key[0], kind=group.kind, examples=[]))
        into.files += group.files
        into.bytes += group.bytes
        into.confirmed += group.confirmed
        into.examples = sorted([*into.examples, *group.examples])[:EXAMPLES_MAX]
    return [merged[key] for key in sorted(merged, key=lambda key: (key[0] == OTHERS, key))]


def table_folder(root: str, location: str) -> str:
    """The folder around `data` or `metadata`, as writers lay tables out; for other files, the folder that contains them."""
    segments = location.removeprefix(root).split("/")[:-1]
    last = next((at for at in reversed(range(len(segments))) if segments[at] in _TABLE_FOLDERS), len(segments))
    return "/".join(segments[:last])
