"""`headwater maintain snapshots`: expires snapshots of tables by commits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
import rich_click as click

from headwater.cli.maintenance.maintain_output import dry_run, failed_if, in_realms, progress_bar, realm_labels
from headwater.cli.output import as_json, echo, print_json, print_table
from headwater.cli.target import the_store
from headwater.producer.pointer_names import ReferenceType
from headwater.schemas.errors import InvalidInput
from headwater.settings import Settings

if TYPE_CHECKING:
    from headwater.persistence.store import Store
    from headwater.producer.references.references import References
    from headwater.service.iceberg.maintenance.snapshot_expiry import SnapshotRules, TableExpiry
    from headwater.service.iceberg.operations.lake_branch import LakeBranch

DEFAULT_KEEP = "*=5d+1n"
"""Iceberg's own defaults."""
AUTHOR = "maintenance"


class _Row(msgspec.Struct, frozen=True):
    realm: str
    catalog: str
    branch: str
    tables: list[TableExpiry]


@click.command("snapshots")
@in_realms
@click.option("--catalog", "catalogs", multiple=True, metavar="NAME", help="Only this catalog; may be repeated.")
@click.option("--branch", "branches", multiple=True, metavar="NAME", help="Only this branch; may be repeated. All by default.")
@click.option(
    "--keep", metavar="RULES", help="E.g. 'shop.*=30d+10n, *=5d+1n'; overrides the settings of tables and their branches."
)
@dry_run
@as_json
@click.pass_obj
def snapshots(
    settings: Settings,
    realms: Sequence[str],
    catalogs: Sequence[str],
    branches: Sequence[str],
    keep: str | None,
    dry_run: bool,
    json_output: bool,
) -> None:
    """Expire snapshots of Iceberg tables: a commit for each table, in the feed like any other. No file is deleted.

    Without --keep, the settings of each table and of its own branches apply (`history.expire.max-snapshot-age-ms` …), and
    otherwise 5 days and at least one snapshot. Tables with `gc.enabled=false` are skipped.
    """
    from headwater.service.iceberg.maintenance.snapshot_expiry import expire_snapshots

    rules = _rules(keep)
    with the_store(settings) as store, progress_bar() as bar:
        rows = [
            _Row(
                realm,
                branch.catalog.name,
                branch.reference,
                list(
                    expire_snapshots(branch, rules, AUTHOR, dry_run=dry_run, on_table=lambda: bar.add("tables", 1)),
                ),
            )
            for realm, branch in _branches(settings, store, realms, catalogs, branches)
        ]
    if json_output:
        print_json({"dry_run": dry_run, "branches": rows})
    else:
        _print(rows, dry_run)
    failed_if([f"{row.catalog}@{row.branch} {it.table}: {it.failure}" for row in rows for it in row.tables if it.failure])


def _branches(
    settings: Settings, store: Store, realms: Sequence[str], catalogs: Sequence[str], branches: Sequence[str]
) -> Iterator[tuple[str, LakeBranch]]:
    from headwater.persistence.rows import SYSTEM_REALM
    from headwater.producer.catalogs.catalogs import Catalogs
    from headwater.service.iceberg.operations.key_locks import KeyLocks
    from headwater.service.iceberg.operations.lake_branch import LakeBranch
    from headwater.service.iceberg.operations.lakes import Lakes
    from headwater.service.storage.storage_options import server_storage
    from headwater.streaming.runs.realm_sets import instances_to_maintain

    lakes = Lakes(server_storage(settings.storage_options))
    for realm in instances_to_maintain(store, realms):
        if realm == SYSTEM_REALM:
            continue
        kernel = store.kernel(realm)
        known = Catalogs(kernel)
        for catalog in [known.get(name) for name in catalogs] if catalogs else known.list():
            references = known.references(catalog)
            for name in _named(references, branches):
                yield realm, LakeBranch(kernel, catalog, name, lakes.metadata_of(catalog), KeyLocks())


def _named(references: References, names: Sequence[str]) -> Iterator[str]:
    """Every branch if none is named; `ReferenceNotFound` for a name that is not a branch."""
    found = (references.get(name, type=ReferenceType.BRANCH) for name in names)
    return (one.name for one in (found if names else references.all(type=ReferenceType.BRANCH)))


def _rules(keep: str | None) -> SnapshotRules:
    from headwater.service.iceberg.maintenance.snapshot_expiry import SnapshotRules
    from headwater.service.iceberg.metadata.snapshot_retention import SnapshotRule
    from headwater.streaming.expire.retention import parse_retention

    rules = parse_retention(DEFAULT_KEEP if keep is None else keep)
    if not rules:
        raise InvalidInput("there is no rule.", field="--keep", remedy="Write e.g. '*=5d+1n'.")
    return SnapshotRules(
        tuple(
            (rule.pattern, SnapshotRule((rule.age_seconds or 0) * 1_000, rule.entries or 1, keep is not None)) for rule in rules
        )
    )


def _print(rows: Sequence[_Row], dry_run: bool) -> None:
    labels = realm_labels(row.realm for row in rows)
    shown = [
        (labels[row.realm], f"{row.catalog}@{row.branch}", it.table, it.snapshots, it.expired, ", ".join(it.refs))
        for row in rows
        for it in row.tables
        if it.expired or it.refs
    ]
    print_table(["realm", "branch", "table", "snapshots", "expired", "refs"], shown)
    for row in rows:
        for it in row.tables:
            if it.skipped:
                echo(f"{row.catalog}@{row.branch} {it.table} was skipped: {it.skipped}")
    expired = sum(it.expired for row in rows for it in row.tables)
    echo(f"{expired} snapshots {'would expire' if dry_run else 'expired'}")


COMMANDS = [snapshots]
