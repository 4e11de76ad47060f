"""Relations as a planner needs them: columns, types, partition columns, and the statistics of the snapshot.

A plug-in is an entry point of the group `headwater.relation_enrichers`: a function of a `Relation` that returns texts by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import metadata
from typing import Any

import msgspec

from headwater.persistence.store import RealmKernel
from headwater.producer.access.obligations import Obligation
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.content.content_types import DELTA_TABLE
from headwater.producer.plans.plan_rows import Plan, PlanInput
from headwater.producer.statistics.statistics_records import SetKey, StatisticsSet
from headwater.producer.statistics.statistics_sets import StatisticsSets
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import CatalogNotFound, ReferenceNotFound, Unsupported
from headwater.schemas.http.statistics_json import StatisticsInfo
from headwater.schemas.statistics import ColumnStatistics
from headwater.service.auth.obligation_guard import ObligationGuard
from headwater.service.bundles.relation_names import Place
from headwater.service.iceberg.metadata.shapes import Plain
from headwater.service.iceberg.operations.lake_branch import TABLE, VIEW, LakeBranch, LakeState
from headwater.service.iceberg.operations.lakes import Lakes
from headwater.service.iceberg.plans.plan_obligations import is_enforced, rules_of
from headwater.service.iceberg.plans.planned_inputs import find_input, snapshot_of
from headwater.service.statistics.snapshot_lookup import FoundSnapshot, schema_of
from headwater.service.statistics.statistics_operations import SUMMARY, statistics_info

ENTRY_POINT_GROUP = "headwater.relation_enrichers"
COLUMNS_MAX = 10_000


class RelationColumn(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    name: str
    type: Any
    """As Iceberg's schemas write it."""
    required: bool = False
    doc: str = ""
    is_partition: bool = False
    statistics: ColumnStatistics | None = None


class Relation(msgspec.Struct, frozen=True, kw_only=True):
    place: Place
    found: PlanInput | None
    """None for a temporary relation."""
    columns: Sequence[RelationColumn]
    statistics: StatisticsInfo | None = None
    sql: Sequence[tuple[str, str]] = ()
    """For a view: dialect and text."""
    enrichments: Mapping[str, str] = {}
    obligations: Sequence[Obligation] = ()
    """For a table, if the caller enforces them."""


Enricher = Callable[[Relation], Mapping[str, str]]


class Known(msgspec.Struct, frozen=True):
    """What decides how a relation is described, besides its metadata. Equal for equal relations."""

    statistics: str | None = None
    """The version of the published set."""
    rules: tuple[bytes, ...] = ()
    """The entries of the policies, where there are obligations."""
    enforced: bool = True


class Relations:
    """The relations of one bundle: what the plan pins, or what the branches hold now, each read at one entry."""

    def __init__(self, kernel: RealmKernel, lakes: Lakes, plan: Plan | None, reference: str, guard: ObligationGuard) -> None:
        self._kernel, self._lakes, self._plan, self._reference, self._guard = kernel, lakes, plan, reference, guard
        self._rules = guard.now()
        self._planned_rules = self._rules if plan is None else rules_of(plan, guard)
        self._planned = {} if plan is None else {(one.catalog, one.key): one for one in reversed(plan.inputs)}
        self._states: dict[str, tuple[LakeBranch, LakeState]] = {}
        self._branches: dict[str, LakeBranch] = {}
        self._sets: dict[int, Callable[[SetKey], StatisticsSet | None]] = {}

    def read_ahead(self, places: Iterable[Place]) -> None:
        """In bulk. What is not there is found missing later."""
        keys: dict[str, list[KeyPath]] = {}
        for place in places if self._plan is None else ():
            keys.setdefault(place.catalog, []).append(place.path)
        for catalog, of_catalog in keys.items():
            with suppress(CatalogNotFound, ReferenceNotFound):
                self._state(catalog)[1].read_ahead(of_catalog)

    def find(self, place: Place) -> PlanInput | None:
        """What stands there, without its metadata's columns; None if nothing does."""
        if self._plan is not None:
            return _told(self._planned.get((place.catalog, place.path)))
        try:
            branch, state = self._state(place.catalog)
        except CatalogNotFound:
            return None
        there = state.get(place.path)
        if there is None or there.type not in (TABLE, VIEW, DELTA_TABLE.name):
            return None
        if there.type == DELTA_TABLE.name:
            raise _untold()
        return find_input(branch, state, place.path, None)  # ⚠ whose errors are errors: the relation is there

    def known(self, found: PlanInput) -> Known:
        there = self._set(found)
        rules = [one.at.entry_id for one in (self._rules, self._planned_rules) if one.at is not None and one.by_place]
        enforced = not rules or found.type != TABLE or self._is_enforced(found)
        return Known(None if there is None else there.version, tuple(rules), enforced)

    def read(self, place: Place, found: PlanInput, known: Known) -> Relation:
        file = self._branch(found).files_at(found.key, found.metadata_location).load(found.metadata_location)
        made = self._table(place, found, file.table, known) if found.type == TABLE else _view(place, found, file.view)
        enrichments = {name: text for enrich in enrichers() for name, text in enrich(made).items()}
        return msgspec.structs.replace(made, enrichments=enrichments)

    def _table(self, place: Place, found: PlanInput, table: Plain, known: Known) -> Relation:
        """⚠ No statistics of columns that are masked: bounds and histograms hold values."""
        obligations = self._planned_rules.of(found.catalog_id, found.key) if known.enforced else ()
        if found.snapshot_id is None:
            columns = _columns(_current_schema(table), table, {})
            return Relation(place=place, found=found, columns=columns, obligations=obligations)
        snapshot = snapshot_of(table, found.snapshot_id, found.key)
        at = FoundSnapshot(SetKey(found.content_id, found.snapshot_id), table, snapshot)
        there = self._set(found)
        statistics = None if there is None else statistics_info(there, at)
        if statistics is None and at.totals is not None:
            statistics = StatisticsInfo(
                table_id=found.content_id, snapshot_id=found.snapshot_id, source=SUMMARY, table=at.totals
            )
        sets = StatisticsSets(self._kernel, found.catalog_id)
        of_columns = {} if there is None or not known.enforced else _known_columns(sets, at.key)
        columns = _columns(schema_of(table, snapshot), table, of_columns)
        return Relation(place=place, found=found, columns=columns, statistics=statistics, obligations=obligations)

    def _set(self, found: PlanInput) -> StatisticsSet | None:
        if found.snapshot_id is None:
            return None
        find = self._sets.get(found.catalog_id)
        if find is None:
            find = self._sets[found.catalog_id] = StatisticsSets(self._kernel, found.catalog_id).as_of_now()
        return find(SetKey(found.content_id, found.snapshot_id))

    def _is_enforced(self, found: PlanInput) -> bool:
        branch = self._branch(found)
        table = branch.files_at(found.key, found.metadata_location).load(found.metadata_location).table
        of_both = (self._rules, self._planned_rules)
        return all(is_enforced(self._guard, rules, branch, self._lakes, found.key, table) for rules in of_both)

    def _state(self, catalog: str) -> tuple[LakeBranch, LakeState]:
        if catalog not in self._states:
            branch = self._lakes.branch_of(self._kernel, Catalogs(self._kernel).get(catalog), self._reference)
            self._states[catalog] = (branch, branch.state())
        return self._states[catalog]

    def _branch(self, found: PlanInput) -> LakeBranch:
        if self._plan is None:
            return self._state(found.catalog)[0]
        if found.catalog not in self._branches:
            catalog = Catalogs(self._kernel).get(found.catalog)
            self._branches[found.catalog] = self._lakes.branch_of(self._kernel, catalog, "")
        return self._branches[found.catalog]


def _told(found: PlanInput | None) -> PlanInput | None:
    """⚠ A relation that exists but cannot be read is an error: a planner would otherwise use another one of that name."""
    if found is not None and found.type == DELTA_TABLE.name:
        raise _untold()
    return found


def _untold() -> Unsupported:
    return Unsupported("bundles tell of Iceberg tables and views alone.", field="relations", remedy="Read the Delta log.")


def temporary_relation(name: str, schema: Plain) -> Relation:
    return Relation(place=Place("", (name,)), found=None, columns=_columns(schema, {}, {}))


@cache
def enrichers() -> tuple[Enricher, ...]:
    return tuple(found.load() for found in metadata.entry_points(group=ENTRY_POINT_GROUP))


def _known_columns(sets: StatisticsSets, key: SetKey) -> dict[int, ColumnStatistics]:
    known: dict[int, ColumnStatistics] = {}
    token: str | None = None
    while len(known) < COLUMNS_MAX:
        page = sets.columns(key, token=token, limit=1_000)
        known |= {one.column_id: one for one in page.rows}
        token = page.next_token
        if token is None:
            break
    return known


def _columns(schema: Plain, table: Plain, known: Mapping[int, ColumnStatistics]) -> list[RelationColumn]:
    specs = table.get("partition-specs") or ()
    default: Plain = next((one for one in specs if one["spec-id"] == table.get("default-spec-id")), {"fields": []})
    sources = {one["source-id"] for one in default["fields"]}
    return [
        RelationColumn(
            id=one["id"],
            name=one["name"],
            type=one["type"],
            required=bool(one.get("required")),
            doc=one.get("doc") or "",
            is_partition=one["id"] in sources,
            statistics=known.get(one["id"]),
        )
        for one in schema["fields"]
    ]


def _current_schema(table: Plain) -> Plain:
    found: Plain = next(one for one in table["schemas"] if one["schema-id"] == table["current-schema-id"])
    return found


def _view(place: Place, found: PlanInput, view: Plain) -> Relation:
    version = next(one for one in view["versions"] if one["version-id"] == view["current-version-id"])
    schema = next(one for one in view["schemas"] if one["schema-id"] == version["schema-id"])
    sql = [(one.get("dialect", ""), one.get("sql", "")) for one in version["representations"]]
    return Relation(place=place, found=found, columns=_columns(schema, {}, {}), sql=sql)
