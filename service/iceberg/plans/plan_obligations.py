"""The obligations of a plan's tables, and whether its caller may be given their files.

⚠ Policies are mapped to keys, and a branch or an entry of the past may have the table at another key than the default branch.
So the tables that have files at the same places on the default branch count too.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.producer.access.obligations import ObligationRules
from headwater.producer.access.policies import POLICIES_POINTER
from headwater.producer.plans.plan_rows import PinnedEntry, Plan, PlanInput
from headwater.schemas.change import KeyPath
from headwater.service.auth.obligation_guard import ObligationGuard
from headwater.service.iceberg.metadata.shapes import Plain
from headwater.service.iceberg.operations.lake_branch import TABLE, LakeBranch
from headwater.service.iceberg.operations.lakes import Lakes
from headwater.service.storage.locations import places_of


def pin_of_rules(rules: ObligationRules) -> list[PinnedEntry]:
    """The pinned entry of the policies, if there are obligations at all."""
    if rules.at is None or not rules.by_place:
        return []
    return [PinnedEntry(POLICIES_POINTER, rules.at.entry.seq, rules.at.entry_id)]


def rules_of(plan: Plan, guard: ObligationGuard) -> ObligationRules:
    """As they were when the plan began."""
    pin = next((one for one in plan.pins if one.pointer == POLICIES_POINTER), None)
    return ObligationRules() if pin is None else guard.at(pin.entry_id)


def require_enforced(guard: ObligationGuard, rules: ObligationRules, branch: LakeBranch, lakes: Lakes, one: PlanInput) -> None:
    """Checks the obligations of a table that is planned."""
    if rules.by_place:
        is_iceberg = one.type == TABLE
        table = branch.load_metadata(one.key, one.metadata_location).table if is_iceberg else None
        require_enforced_at(guard, rules, branch, lakes, one.key, table)


def require_enforced_at(
    guard: ObligationGuard, rules: ObligationRules, branch: LakeBranch, lakes: Lakes, key: KeyPath, table: Plain | None
) -> None:
    """`NotPermitted` if the caller does not enforce the obligations of the table, or of those of the default branch that have
    files at the same places. Without metadata, of a table that is to be created there."""
    for one in _counting(rules, branch, lakes, key, table):
        guard.require(rules, branch.catalog.name, branch.catalog.id, one)


def is_enforced(
    guard: ObligationGuard, rules: ObligationRules, branch: LakeBranch, lakes: Lakes, key: KeyPath, table: Plain
) -> bool:
    """The same for what is left out instead."""
    return guard.allows(rules, branch.catalog.name, branch.catalog.id, _counting(rules, branch, lakes, key, table))


def _counting(rules: ObligationRules, branch: LakeBranch, lakes: Lakes, key: KeyPath, table: Plain | None) -> Sequence[KeyPath]:
    """The keys whose obligations are those of the table. On the default branch others have its files after a rename alone, and
    nowhere where the catalog allows overlaps."""
    if not rules.by_place or table is None:
        return [key] if rules.by_place else []
    default = lakes.branch_of(branch.kernel, branch.catalog, "")
    places = list(dict.fromkeys(places_of(table["location"], table.get("properties") or {})))
    return [key, *sorted(default.tables_at(places) - {key})]
