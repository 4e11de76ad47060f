"""Expires snapshots of the tables of a branch by ordinary commits, so that each is in the feed. Deletes no file.

⚠ Engines that expire snapshots by themselves delete files that another branch of the catalog may need; this does not. The
snapshots are chosen by the metadata that the commit replaces, so a tag that is set meanwhile keeps its snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase

import msgspec

from headwater.producer.content.content_types import ICEBERG_TABLE
from headwater.producer.content.snapshots import Snapshots
from headwater.producer.references.references import References
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import HeadwaterError, TableNotFound
from headwater.service.iceberg.metadata.shapes import Plain
from headwater.service.iceberg.metadata.snapshot_retention import Expired, SnapshotRule, expired
from headwater.service.iceberg.operations.lake_branch import CommitAuthor, LakeBranch, shown
from headwater.service.iceberg.operations.table_commits import change_table

GC_ENABLED = "gc.enabled"


class SnapshotRules(msgspec.Struct, frozen=True):
    """The first whose pattern fits `namespace.table` holds."""

    rules: tuple[tuple[str, SnapshotRule], ...]

    def rule_of(self, key: KeyPath) -> SnapshotRule | None:
        name = ".".join(key)
        return next((rule for pattern, rule in self.rules if fnmatchcase(name, pattern)), None)


class TableExpiry(msgspec.Struct, frozen=True, kw_only=True):
    """What was done, or would be done, to one table."""

    table: str
    snapshots: int = 0
    """Before."""
    expired: int = 0
    refs: tuple[str, ...] = ()
    """Branches and tags of the table itself that went."""
    skipped: str = ""
    failure: str = ""


def expire_snapshots(
    branch: LakeBranch,
    rules: SnapshotRules,
    author: str,
    *,
    dry_run: bool = False,
    on_table: Callable[[], None] = lambda: None,
) -> Iterator[TableExpiry]:
    """Every table of the branch, in the order of keys. A table that fails does not stop the others."""
    for key in _tables(branch):
        on_table()
        rule = rules.rule_of(key)
        if rule is None:
            continue
        try:
            yield _expire(branch, key, rule, author, dry_run)
        except TableNotFound:  # dropped meanwhile
            continue
        except HeadwaterError as error:
            yield TableExpiry(table=shown(key), failure=str(error))


def _expire(branch: LakeBranch, key: KeyPath, rule: SnapshotRule, author: str, dry_run: bool) -> TableExpiry:
    chosen = TableExpiry(table=shown(key))

    def choose(table: Plain) -> list[msgspec.Raw]:
        nonlocal chosen
        count = len(table["snapshots"])
        if str(table["properties"].get(GC_ENABLED, "true")).lower() == "false":
            chosen = TableExpiry(table=shown(key), snapshots=count, skipped=f"its property {GC_ENABLED} is false")
            return []
        gone = expired(table, rule, branch.kernel.store.clock.now_micros() // 1_000)
        chosen = TableExpiry(table=shown(key), snapshots=count, expired=len(gone.snapshots), refs=gone.refs)
        return _updates(gone)

    if dry_run:
        choose(branch.metadata.load(str(branch.state().require_table(key).value["metadata_location"])).table)
    else:
        change_table(branch, CommitAuthor(author), key, choose)
    return chosen


def _tables(branch: LakeBranch) -> Iterator[KeyPath]:
    at = References(branch.kernel, branch.catalog.id, branch.catalog.default_branch).resolve(branch.reference).logged
    entries = Snapshots(branch.kernel, branch.catalog.id).entries(at, types=[ICEBERG_TABLE.name])
    return (entry.key for entry in entries)


def _updates(chosen: Expired) -> list[msgspec.Raw]:
    refs = [{"action": "remove-snapshot-ref", "ref-name": name} for name in chosen.refs]
    removed = [{"action": "remove-snapshots", "snapshot-ids": list(chosen.snapshots)}] if chosen.snapshots else []
    return [_raw(one) for one in [*refs, *removed]]


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))
