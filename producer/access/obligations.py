"""Obligations: the masks and row filters that apply to a table, by the policies of a realm at one entry of their log."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import msgspec

from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.reading.state import State
from headwater.persistence.records.records import RecordState
from headwater.persistence.store import RealmKernel
from headwater.producer.access.obligation_policies import OBLIGATION_TYPES
from headwater.producer.access.policies import MAPPINGS, POLICIES, POLICIES_POINTER, Target, mapping_of, policy_of, upwards
from headwater.schemas.change import KeyPath, Value

RULES_KEPT_MAX = 64


class Obligation(msgspec.Struct, frozen=True, kw_only=True):
    type: str
    """`column-mask` or `row-filter`."""
    policy: str
    version: str
    """Of the policy."""
    catalog_id: int | None
    """Where it is mapped to: the realm without one, a catalog without a path."""
    path: KeyPath = ()
    content: Value
    parameters: dict[str, str] = {}


class ObligationRules(msgspec.Struct, frozen=True):
    """All obligations of a realm at one entry of its policies."""

    at: LogRecord | None = None
    """None while the realm has no policies."""
    by_place: Mapping[Target, Sequence[Obligation]] = {}

    def of(self, catalog_id: int, key: KeyPath) -> list[Obligation]:
        """Those of one table: nearest mapping first, and those of one place in order of type and policy."""
        if not self.by_place:
            return []
        return [one for place in upwards(Target(catalog_id, key)) for one in self.by_place.get(place, ())]


class KnownObligations:
    """The rules of entries that were read before: they never change. One per worker. Thread-safe."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, bytes], ObligationRules] = {}
        self._lock = threading.Lock()

    def now(self, kernel: RealmKernel) -> ObligationRules:
        """By the newest acknowledged entry: a strong read."""
        row = kernel.read_pointer(POLICIES_POINTER)
        return ObligationRules() if row is None or not row.head else self.at(kernel, row.head)

    def at(self, kernel: RealmKernel, entry_id: bytes) -> ObligationRules:
        """⚠ Only of an entry that the store itself names: from the pointer's row or a plan's pin."""
        key = (kernel.realm, entry_id)
        with self._lock:
            known = self._known.get(key)
        if known is None:
            known = _rules(kernel, kernel.walk.header(entry_id))
            with self._lock:
                while len(self._known) >= RULES_KEPT_MAX:
                    del self._known[next(iter(self._known))]
                self._known[key] = known
        return known


def _rules(kernel: RealmKernel, logged: LogRecord) -> ObligationRules:
    state = RecordState(State(kernel, logged))
    policies = {one.name: one for one in map(policy_of, state.all(POLICIES)) if one.type in OBLIGATION_TYPES}
    by_place: dict[Target, list[Obligation]] = {}
    for mapping in map(mapping_of, state.all(MAPPINGS)) if policies else ():
        policy = policies.get(mapping.policy)
        if policy is None or policy.id != mapping.policy_id:
            continue
        obligation = Obligation(
            type=policy.type,
            policy=policy.name,
            version=policy.version,
            catalog_id=mapping.target.catalog_id,
            path=mapping.target.path,
            content=policy.content,
            parameters=mapping.parameters,
        )
        by_place.setdefault(mapping.target, []).append(obligation)
    return ObligationRules(logged, {place: sorted(found, key=_order) for place, found in by_place.items()})


def _order(one: Obligation) -> tuple[str, str]:
    return one.type, one.policy
