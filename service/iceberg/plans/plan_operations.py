"""Begins plans on several tables and views at once, and plans the files of one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from headwater.persistence.store import RealmKernel
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.plans.plan_rows import Plan, PlanInput, PlanOptions
from headwater.producer.plans.plans import PlanCounts, Plans
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import InvalidInput, PlanNotFound, TableNotFound
from headwater.service.iceberg.operations.lake_branch import TABLE, VIEW, LakeBranch, LakeState, shown
from headwater.service.iceberg.operations.lakes import Lakes
from headwater.service.iceberg.plans.planned_inputs import find_input, pin_of, planner_of
from headwater.service.planning.file_planner import FilePlanner, PlannedFile
from headwater.service.planning.scan_filter import ScanRequest


class WantedInput(msgspec.Struct, frozen=True, kw_only=True):
    """As a caller names it."""

    catalog: str
    key: KeyPath
    reference: str = ""
    """The default branch, if empty."""
    snapshot_id: int | None = None
    types: frozenset[str] = frozenset({TABLE, VIEW})
    """What the caller may read there. ⚠ Anything else is not there."""


class PlanOperations:
    """Of one realm instance."""

    def __init__(self, kernel: RealmKernel, lakes: Lakes, options: PlanOptions, counts: PlanCounts) -> None:
        self._kernel, self._lakes, self._options = kernel, lakes, options
        self.plans = Plans(kernel, options, counts)

    def begin(self, owner: str, wanted: Sequence[WantedInput], *, seconds: float | None = None) -> Plan:
        """⚠ Inputs of one branch are read at one entry of it, so they fit together."""
        if not 1 <= len(wanted) <= self._options.inputs_max:
            raise InvalidInput(
                f"{len(wanted)} inputs.", field="inputs", remedy=f"Name 1 to {self._options.inputs_max} in one plan."
            )
        states: dict[tuple[str, str], tuple[LakeBranch, LakeState]] = {}
        found: list[PlanInput] = []
        for one in wanted:
            place = (one.catalog, one.reference)
            if place not in states:
                branch = self._lakes.branch_of(self._kernel, Catalogs(self._kernel).get(one.catalog), one.reference)
                states[place] = (branch, branch.state())
            found.append(self._found(*states[place], one))
        pins = dict.fromkeys(pin_of(state) for _, state in states.values())
        return self.plans.begin(owner, found, tuple(pins), seconds=seconds)

    def planner(self, plan: Plan, index: int, request: ScanRequest) -> FilePlanner | None:
        """Of one of the plan's tables; None for a table without rows."""
        if not 0 <= index < len(plan.inputs) or plan.inputs[index].type != TABLE:
            raise InvalidInput(f"the plan has no table {index}.", field="index", remedy="Name an input that is a table.")
        one = plan.inputs[index]
        if one.snapshot_id is None:
            return None
        return planner_of(self._branch(one), self._lakes, one, request)

    def files(self, planner: FilePlanner) -> Iterator[PlannedFile]:
        return planner.files(*planner.manifests())

    def live(self, id: str, owner: str) -> Plan:
        """`PlanNotFound` if it has ended, or its grace is over: what it pinned may be gone."""
        plan = self.plans.get(id, owner)
        if not plan.holds(self._kernel.store.clock.now_micros()):
            raise PlanNotFound(f"plan {id[:80]!r} is over.", field="plan_id", remedy="Begin a new one.")
        return plan

    def _found(self, branch: LakeBranch, state: LakeState, one: WantedInput) -> PlanInput:
        found = find_input(branch, state, one.key, one.snapshot_id)
        if found.type not in one.types:
            raise TableNotFound(f"Table does not exist: {shown(one.key)}", field="inputs", remedy="Name a table or a view.")
        return found

    def _branch(self, one: PlanInput) -> LakeBranch:
        """⚠ Of the very catalog that was planned on: one that was made again under its name is another one."""
        catalog = Catalogs(self._kernel).get(one.catalog)
        if catalog.id != one.catalog_id:
            raise PlanNotFound("its catalog was dropped.", field="plan_id", remedy="Begin a new plan.")
        return self._lakes.branch_of(self._kernel, catalog, "")
