"""Begins plans on several tables and views at once, and plans the files of one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

from headwater.persistence.store import RealmKernel
from headwater.producer.access.obligations import Obligation
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.connectors.source_spi import ScanFile
from headwater.producer.plans.plan_counts import PlanCounts
from headwater.producer.plans.plan_rows import PinnedEntry, Plan, PlanInput, PlanOptions
from headwater.producer.plans.plans import Plans
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import CatalogNotFound, InvalidInput, PlanNotFound, TableNotFound
from headwater.service.auth.obligation_guard import ObligationGuard
from headwater.service.iceberg.operations.lake_branch import VIEW, LakeBranch, shown
from headwater.service.iceberg.operations.lakes import Lakes
from headwater.service.iceberg.plans.plan_obligations import pin_of_rules, require_enforced, rules_of
from headwater.service.iceberg.plans.planned_inputs import BySource, find_input, pin_of, planner_of
from headwater.service.iceberg.plans.view_expansion import Expansion, PinnedBranch, Reader
from headwater.service.planning.file_planner import FilePlanner, PlannedFile
from headwater.service.planning.scan_filter import ScanRequest


class WantedInput(msgspec.Struct, frozen=True, kw_only=True):
    """As a caller names it."""

    catalog: str
    key: KeyPath
    reference: str = ""
    """The default branch, if empty."""
    snapshot_id: int | None = None


class Sources(BySource, Protocol):
    """The sources of connectors, which plan some of the tables that they observe."""

    def files(self, one: PlanInput, filter: bytes) -> Iterator[ScanFile]: ...


class PlanOperations:
    """One per caller and realm instance."""

    def __init__(
        self,
        kernel: RealmKernel,
        lakes: Lakes,
        options: PlanOptions,
        counts: PlanCounts,
        guard: ObligationGuard,
        sources: Sources | None = None,
    ) -> None:
        self._kernel, self._lakes, self._options, self._guard = kernel, lakes, options, guard
        self._sources = sources
        self.plans = Plans(kernel, options, counts)

    def begin(self, owner: str, wanted: Sequence[WantedInput], reader: Reader, *, seconds: float | None = None) -> Plan:
        """⚠ Inputs of one branch are read at one entry of it, and so is what its views read: they fit together."""
        if not 1 <= len(wanted) <= self._options.inputs_max:
            raise InvalidInput(
                f"{len(wanted)} inputs.", field="inputs", remedy=f"Name 1 to {self._options.inputs_max} in one plan."
            )
        pinned = _PinnedBranches(self._kernel, self._lakes)
        expansion = Expansion(pinned, reader, self._options.inputs_max, self._sources)
        places = []
        for place, keys in _by_place(wanted).items():
            pinned.open(*place).state.read_ahead(keys)
        for one in wanted:
            at = pinned.open(one.catalog, one.reference)
            found = find_input(at.branch, at.state, one.key, one.snapshot_id, self._sources)
            if found.type not in reader.types(one.catalog, one.key):
                raise TableNotFound(f"Table does not exist: {shown(one.key)}", field="inputs", remedy="Name a table or a view.")
            places.append((at, expansion.add(msgspec.structs.replace(found, pin=at.pin))))
        for at, number in places:
            expansion.expand(at, number)
        rules = self._guard.now()
        for input in expansion.inputs if rules.by_place else ():
            if input.type != VIEW:
                require_enforced(self._guard, rules, pinned.branches[input.pin], self._lakes, input)
        return self.plans.begin(owner, expansion.inputs, (*pinned.pins, *pin_of_rules(rules)), seconds=seconds)

    def obligations(self, plan: Plan) -> list[list[Obligation]]:
        """The obligations of each input as of the plan's beginning: every call returns the same."""
        rules = rules_of(plan, self._guard)
        return [rules.of(one.catalog_id, one.key) if one.type != VIEW else [] for one in plan.inputs]

    def planner(self, plan: Plan, index: int, request: ScanRequest) -> FilePlanner | None:
        """The planner of one of the plan's tables; None for a table without rows. ⚠ Masks added since the plan began
        count too."""
        one = self._enforced(plan, index)
        return None if one.snapshot_id is None else planner_of(self._branch(one), self._lakes, one, request)

    def files_of_source(self, plan: Plan, index: int, filter: bytes) -> Iterator[ScanFile]:
        """Files of a table that its connector's source plans."""
        one = self._enforced(plan, index)
        return iter(()) if self._sources is None else self._sources.files(one, filter)

    def _enforced(self, plan: Plan, index: int) -> PlanInput:
        if not 0 <= index < len(plan.inputs) or plan.inputs[index].type == VIEW:
            raise InvalidInput(f"the plan has no table {index}.", field="index", remedy="Name an input that is a table.")
        one = plan.inputs[index]
        for rules in (rules_of(plan, self._guard), self._guard.now()):
            require_enforced(self._guard, rules, self._branch(one), self._lakes, one)
        return one

    def files(self, planner: FilePlanner) -> Iterator[PlannedFile]:
        return planner.files(*planner.manifests())

    def live(self, id: str, owner: str) -> Plan:
        """`PlanNotFound` if it has ended, or its grace is over: what it pinned may be gone."""
        plan = self.plans.get(id, owner)
        if not plan.holds(self._kernel.store.clock.now_micros()):
            raise PlanNotFound(f"plan {id[:80]!r} is over.", field="plan_id", remedy="Begin a new one.")
        return plan

    def _branch(self, one: PlanInput) -> LakeBranch:
        """⚠ Of the very catalog that was planned on: one that was made again under its name is another one."""
        catalog = Catalogs(self._kernel).get(one.catalog)
        if catalog.id != one.catalog_id:
            raise PlanNotFound("its catalog was dropped.", field="plan_id", remedy="Begin a new plan.")
        return self._lakes.branch_of(self._kernel, catalog, "")


def _by_place(wanted: Sequence[WantedInput]) -> dict[tuple[str, str], list[KeyPath]]:
    found: dict[tuple[str, str], list[KeyPath]] = {}
    for one in wanted:
        found.setdefault((one.catalog, one.reference), []).append(one.key)
    return found


class _PinnedBranches:
    """The references of a plan, each read once."""

    def __init__(self, kernel: RealmKernel, lakes: Lakes) -> None:
        self._kernel, self._lakes = kernel, lakes
        self._opened: dict[tuple[str, str], PinnedBranch] = {}
        self.pins: list[PinnedEntry] = []
        self.branches: list[LakeBranch] = []

    def open(self, catalog: str, reference: str) -> PinnedBranch:
        known = self._opened.get((catalog, reference))
        if known is not None:
            return known
        branch = self._lakes.branch_of(self._kernel, Catalogs(self._kernel).get(catalog), reference)
        state = branch.state()
        pin = pin_of(state)
        if pin not in self.pins:
            self.pins.append(pin)
            self.branches.append(branch)
        found = self._opened[catalog, reference] = PinnedBranch(branch, state, self.pins.index(pin))
        return found

    def pinned(self, catalog: str) -> PinnedBranch:
        return self.open(catalog, "")

    def has_catalog(self, name: str) -> bool:
        try:
            Catalogs(self._kernel).get(name)
        except (CatalogNotFound, InvalidInput):
            return False
        return True


def branch_pins(plan: Plan) -> list[PinnedEntry]:
    """Those of branches and tags: that of the policies is the server's own."""
    return [one for one in plan.pins if one.pointer.startswith("cat/")]
