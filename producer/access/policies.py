"""Policies, and what they are mapped to: a realm, a catalog, or a key of it.

What a policy's content means is its type's business (how a table is compacted, how long snapshots are kept …): here it is kept,
versioned by the log, and found by what it is mapped to. The nearest mapping of a type wins over those above it. Policies of
type `retention` are checked when they are written, and decide how far expiry goes; those of the types `column-mask` and
`row-filter` are checked too, and become the obligations of plans.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.persistence.records.records import (
    PAGE_RECORDS_MAX,
    DeleteRecord,
    Expect,
    PutRecord,
    Record,
    RecordType,
)
from headwater.persistence.store import RealmKernel
from headwater.producer.access.named_records import NamedRecords, unchanged
from headwater.producer.access.obligation_policies import OBLIGATION_TYPES, check_obligation
from headwater.producer.access.retention_policy import RETENTION_TYPE, read_retention
from headwater.producer.access.writing import (
    WriteMeta,
    Written,
    check_name,
    not_found,
    version_of,
)
from headwater.producer.json_safety import check_text, check_value
from headwater.schemas.change import KeyPath, Value
from headwater.schemas.errors import Conflict, InvalidInput

POLICIES_POINTER = "policy-mappings"
POLICY = RecordType("POLICY", 1)
POLICY_MAPPING = RecordType("POLICY_MAPPING", 2)
POLICIES: KeyPath = ("policies",)
MAPPINGS: KeyPath = ("mappings",)
OF_REALM = "realm"
DESCRIPTION_BYTES_MAX = 4_096


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    type: str
    content: Value = {}
    description: str = ""
    id: str = ""
    version: str = ""


class Target(msgspec.Struct, frozen=True):
    """A realm (no catalog), a catalog (no path), or what is at a path of it."""

    catalog_id: int | None = None
    path: KeyPath = ()


class PolicyMapping(msgspec.Struct, frozen=True, kw_only=True):
    policy: str
    target: Target
    parameters: dict[str, str] = {}
    policy_id: str = ""


class Policies:
    """The policies of one realm instance. Nothing is remembered between calls."""

    def __init__(self, kernel: RealmKernel) -> None:
        self._records = NamedRecords(kernel, POLICIES_POINTER, "policy", POLICIES)

    # ── policies ────────────────────────────────────────────────────────────────────────────────────────────

    def get(self, name: str) -> Policy:
        return policy_of(self._records.read(name))

    def list(self, *, after: str = "", limit: int = PAGE_RECORDS_MAX) -> Sequence[Policy]:
        """In order of name, after `after`."""
        return [policy_of(record) for record in self._records.page(after, limit)]

    def create(
        self, name: str, *, type: str, content: Value | None = None, description: str = "", meta: WriteMeta
    ) -> Written[Policy]:
        value = _value(check_name(name, "policy"), type, content or {}, description)
        put = PutRecord(type=POLICY, key=self._records.key(name), value=value, expect=Expect.ABSENT)
        outcome = self._records.commit([put], meta, f"Create policy {name}")
        return Written(value=self.get(name), outcome=outcome)

    def update(
        self, name: str, *, content: Value, description: str | None = None, version: str | None = None, meta: WriteMeta
    ) -> Written[Policy]:
        """The type stays."""
        record = self._records.read(name)
        said = record.value["description"] if description is None else description
        value = _value(name, record.value["type"], content, said)
        expect = unchanged(record, version)
        put = PutRecord(type=POLICY, key=self._records.key(name), value=value, expect=expect)
        outcome = self._records.commit([put], meta, f"Update policy {name}")
        return Written(value=self.get(name), outcome=outcome)

    def delete(self, name: str, *, version: str | None = None, detach_all: bool = False, meta: WriteMeta) -> CommitOutcome:
        """`Conflict` while it is mapped to something, unless that is to go too."""
        record = self._records.read(name)
        mapped = [one for one in self._records.state().all(MAPPINGS) if one.value["policy"] == name]
        if mapped and not detach_all:
            raise Conflict(
                f"{name!r} is mapped to {len(mapped)} things.", field="policy", remedy="Detach it first, or detach all."
            )
        expect = unchanged(record, version)
        rest = [DeleteRecord(key=one.key, expect=Expect.ANYTHING) for one in mapped]
        operations = [DeleteRecord(key=self._records.key(name), expect=expect), *rest]
        return self._records.commit(operations, meta, f"Delete policy {name}")

    # ── mappings ────────────────────────────────────────────────────────────────────────────────────────────

    def attach(
        self, name: str, target: Target, *, parameters: dict[str, str] | None = None, meta: WriteMeta
    ) -> Written[PolicyMapping]:
        """Nothing to do where it is attached with the same parameters already."""
        policy = self.get(name)
        check_value(dict(parameters or {}), "parameters")
        value: Value = {
            "policy": name,
            "policy_id": policy.id,
            "target": {"catalog_id": target.catalog_id, "path": list(target.path)},
            "parameters": parameters or {},
        }
        put = PutRecord(type=POLICY_MAPPING, key=_mapping_key(target, name), value=value)
        outcome = self._records.commit([put], meta, f"Attach policy {name}")
        mapping = PolicyMapping(policy=name, target=target, parameters=parameters or {}, policy_id=policy.id)
        return Written(value=mapping, outcome=outcome)

    def detach(self, name: str, target: Target, *, meta: WriteMeta) -> CommitOutcome:
        key = _mapping_key(target, check_name(name, "policy"))
        if self._records.state().get(key) is None:
            raise not_found("policy mapping", name)
        return self._records.commit([DeleteRecord(key=key)], meta, f"Detach policy {name}")

    def mappings(self, name: str | None = None) -> Sequence[PolicyMapping]:
        """All, or those of one policy."""
        found = (mapping_of(record) for record in self._records.state().all(MAPPINGS))
        return [one for one in found if name is None or one.policy == name]

    def mappings_of_type(self, type: str) -> Sequence[tuple[Policy, PolicyMapping]]:
        """Mappings of existing policies. A mapping does not survive its policy's deletion, even if the name is used again."""
        state = self._records.state()
        policies = {one.name: one for one in map(policy_of, state.all(POLICIES)) if one.type == type}
        mappings = map(mapping_of, state.all(MAPPINGS))
        found = ((policies.get(one.policy), one) for one in mappings)
        return [(policy, one) for policy, one in found if policy is not None and policy.id == one.policy_id]

    def applicable(self, target: Target) -> Sequence[tuple[Policy, PolicyMapping]]:
        """The policies that apply to a thing: the nearest of each type, from the thing itself up to the realm."""
        state = self._records.state()
        nearest: dict[str, tuple[Policy, PolicyMapping]] = {}
        for place in upwards(target):
            for record in state.page(_place_key(place)):
                mapping, policy = mapping_of(record), state.get((*POLICIES, record.value["policy"]))
                if policy is not None and policy.content_id.hex() == mapping.policy_id:
                    nearest.setdefault(policy.value["type"], (policy_of(policy), mapping))
        return [*nearest.values()]


def policy_of(record: Record) -> Policy:
    return msgspec.convert(record.value | {"id": record.content_id.hex(), "version": version_of(record)}, Policy)


def mapping_of(record: Record) -> PolicyMapping:
    return msgspec.convert(record.value, PolicyMapping)


def _value(name: str, type: str, content: Value, description: str) -> Value:
    if type == RETENTION_TYPE:
        read_retention(content)
    elif type in OBLIGATION_TYPES:
        check_obligation(type, content)
    return {
        "name": name,
        "type": check_name(type, "policy type"),
        "content": check_value(content, "content"),
        "description": check_text(description, "description", DESCRIPTION_BYTES_MAX),
    }


def upwards(target: Target) -> Sequence[Target]:
    """The place itself and all above it, nearest first."""
    if target.catalog_id is None:
        return [Target()]
    paths = [target.path[:levels] for levels in range(len(target.path), -1, -1)]
    return [*(Target(target.catalog_id, path) for path in paths), Target()]


def _place_key(target: Target) -> KeyPath:
    """With the number of levels, so that a page of one place holds nothing of those below it."""
    if target.catalog_id is None:
        if target.path:
            raise InvalidInput("the realm has no keys.", field="path", remedy="Name a catalog.")
        return (*MAPPINGS, OF_REALM)
    return (*MAPPINGS, str(target.catalog_id), str(len(target.path)), *target.path)


def _mapping_key(target: Target, policy: str) -> KeyPath:
    return (*_place_key(target), policy)
