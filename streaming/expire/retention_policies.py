"""Finds what keeps a pointer's history: the policies that apply to it, or else the rule of the settings.

A branch has a single floor, so the floor must satisfy everybody who stores something on it. ⚠ The rules of a branch are the
nearest policy of its catalog or realm (else the setting), plus every policy that is mapped to a namespace or table of the
catalog: the floor rises only as far as all of them allow. So a policy on a table can make a branch keep more than the catalog's
policy does, never less.

⚠ Policies do not affect the history of rights: that is kept unless the setting names it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headwater.persistence.store import RealmKernel
from headwater.producer.access.policies import Policies, Policy, PolicyMapping, Target
from headwater.producer.access.retention_policy import RETENTION_TYPE, read_retention
from headwater.producer.pointer_names import parse_reference_pointer
from headwater.schemas.change import Value
from headwater.schemas.errors import InvalidInput
from headwater.streaming.expire.retention import FOR_EVER, Retention, is_of_access, retention_of

DAY_SECONDS = 86_400


class AppliedRule(msgspec.Struct, frozen=True):
    rule: Retention
    source: str
    """The policy and what it is mapped to, or the setting, for people."""


class RetentionChoice:
    """One per realm instance, with its policies as of creation."""

    def __init__(self, kernel: RealmKernel, defaults: Sequence[Retention]) -> None:
        self._defaults = defaults
        self._rules = _mapped_rules(kernel)

    def of(self, pointer: str) -> list[AppliedRule]:
        """At least one; all of them apply."""
        if is_of_access(pointer):
            return [self._default(pointer)]
        reference = parse_reference_pointer(pointer)
        catalog_id = None if reference is None else reference.catalog_id
        of_realm = self._rules.get(Target(), [])
        if catalog_id is None:
            return of_realm or [self._default(pointer)]
        nearest = self._rules.get(Target(catalog_id), []) or of_realm or [self._default(pointer)]
        below = [rules for target, rules in self._rules.items() if target.catalog_id == catalog_id and target.path]
        return [*nearest, *(rule for rules in below for rule in rules)]

    def _default(self, pointer: str) -> AppliedRule:
        rule = retention_of(pointer, self._defaults)
        return AppliedRule(rule, "kept forever" if rule == FOR_EVER else f"setting {rule.pattern}")


def _mapped_rules(kernel: RealmKernel) -> dict[Target, list[AppliedRule]]:
    """Several policies mapped to the same place all apply: nothing ranks them."""
    rules: dict[Target, list[AppliedRule]] = {}
    for policy, mapping in Policies(kernel).mappings_of_type(RETENTION_TYPE):
        rules.setdefault(mapping.target, []).append(AppliedRule(_rule(policy.content), _source(policy, mapping)))
    return rules


def _rule(content: Value) -> Retention:
    """⚠ A policy that cannot be parsed keeps everything: it was written before such policies were checked."""
    try:
        policy = read_retention(content)
    except InvalidInput:
        return FOR_EVER
    age_seconds = None if policy.days is None else round(policy.days * DAY_SECONDS)
    return Retention(age_seconds=age_seconds, entries=policy.entries)


def _source(policy: Policy, mapping: PolicyMapping) -> str:
    target = mapping.target
    if target.catalog_id is None:
        return f"policy {policy.name} on the realm"
    path = f" {'.'.join(target.path)}" if target.path else ""
    return f"policy {policy.name} on cat/{target.catalog_id}{path}"
