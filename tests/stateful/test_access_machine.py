"""Principals, roles and grants come and go in any order: what anyone may do is what a plain model says, remembered or not."""

from __future__ import annotations

import itertools

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from headwater.persistence.reading.head_watch import HeadWatch
from headwater.persistence.realms.realms import Realms
from headwater.persistence.store import open_store
from headwater.producer.access.effective import effective_rights
from headwater.producer.access.grants import catalog_grants, realm_grants
from headwater.producer.access.principals import Principals
from headwater.producer.access.rights import Right, implied_by
from headwater.producer.access.roles import Roles, catalog_roles, principal_roles
from headwater.producer.access.writing import WriteMeta
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import RecordExists, RecordNotFound
from headwater.service.auth.rights.realm_rights import RealmRights
from tests.support.models.realm_cases import CHEAP

META = WriteMeta("test")
CATALOG = 1
PEOPLE, TEAMS, GROUPS = ("ann", "bob"), ("red", "blue"), ("readers", "writers")
RIGHTS = (Right.CATALOG_READ, Right.TABLE_READ, Right.COMMIT_WRITE)
ASKED = (Right.TABLE_READ, Right.FEED_READ, Right.TABLE_WRITE, Right.REALM_MANAGE)
PATHS: tuple[KeyPath, ...] = ((), ("db",), ("db", "t"))
KEYS: tuple[KeyPath, ...] = ((), ("db",), ("db", "t"), ("other", "t"))

_people, _teams, _groups = (st.sampled_from(names) for names in (PEOPLE, TEAMS, GROUPS))
_rights, _paths = st.sampled_from(RIGHTS), st.sampled_from(PATHS)


class Model:
    """Names stand for numbers that are never used again: that is all there is to it."""

    def __init__(self) -> None:
        self.people: dict[str, int] = {}
        self.teams: dict[str, int] = {}
        self.groups: dict[str, int] = {}
        self.members: set[tuple[int, int]] = set()
        self.group_members: set[tuple[int, int]] = set()
        self.realm: set[tuple[int, Right]] = set()
        self.catalog: set[tuple[int, Right, KeyPath]] = set()

    def may(self, person: str, right: Right, key: KeyPath) -> bool:
        teams = {number for number in self.teams.values() if (self.people.get(person, -1), number) in self.members}
        groups = {number for number in self.groups.values() if any((team, number) in self.group_members for team in teams)}
        over_realm = any(team in teams and right in implied_by(granted) for team, granted in self.realm)
        return over_realm or any(
            group in groups and right in implied_by(granted) and key[: len(path)] == path
            for group, granted, path in self.catalog
        )


class AccessMachine(RuleBasedStateMachine):
    allowed = 0
    """How often, in all runs, somebody might do something: a machine that only ever denies would prove nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.store = open_store("memory://", create=True)
        realms = Realms(self.store, secret_cost=CHEAP)
        realms.create("r")
        realms.init("r")
        self.kernel = realms.require_active("r")
        self.watch = HeadWatch(self.kernel)
        self.remembered = RealmRights(self.kernel, self.watch)
        self.model = Model()
        self.numbers = itertools.count(1)

    def teardown(self) -> None:
        self.watch.close()
        self.store.close()

    @initialize(complete=st.booleans(), right=_rights, path=_paths)
    def begin(self, complete: bool, right: Right, path: KeyPath) -> None:
        if complete:
            for toggle, names in ((self.toggle_person, PEOPLE), (self.toggle_team, TEAMS)):
                for name in names:
                    toggle(name)
            self.assign_person("ann", "red", True)
            self.everyone_may_what_the_model_says()  # remembered before the catalog has its first pointer
            for name in GROUPS:
                self.toggle_group(name)
            self.assign_team("red", "readers", True)
            self.grant_over_catalog("readers", right, path, True)

    # ── who there is ────────────────────────────────────────────────────────────────────────────────────────

    @rule(name=_people)
    def toggle_person(self, name: str) -> None:
        principals = Principals(self.kernel, cost=CHEAP)
        if self.model.people.pop(name, None) is None:
            principals.create(name, meta=META)
            self.model.people[name] = next(self.numbers)
        else:
            principals.delete(name, meta=META)

    @rule(name=_teams)
    def toggle_team(self, name: str) -> None:
        self._toggle(principal_roles(self.kernel), self.model.teams, name)

    @rule(name=_groups)
    def toggle_group(self, name: str) -> None:
        self._toggle(catalog_roles(self.kernel, CATALOG), self.model.groups, name)

    def _toggle(self, roles: Roles, numbers: dict[str, int], name: str) -> None:
        if numbers.pop(name, None) is None:
            roles.create(name, meta=META)
            numbers[name] = next(self.numbers)
        else:
            roles.delete(name, meta=META)

    # ── who is in what ──────────────────────────────────────────────────────────────────────────────────────

    @rule(person=_people, team=_teams, into=st.booleans())
    def assign_person(self, person: str, team: str, into: bool) -> None:
        model = self.model
        self._assign(principal_roles(self.kernel), person, team, (model.people, model.teams), model.members, into)

    @rule(team=_teams, group=_groups, into=st.booleans())
    def assign_team(self, team: str, group: str, into: bool) -> None:
        model = self.model
        roles = catalog_roles(self.kernel, CATALOG)
        self._assign(roles, team, group, (model.teams, model.groups), model.group_members, into)

    def _assign(
        self,
        roles: Roles,
        member: str,
        role: str,
        numbers: tuple[dict[str, int], dict[str, int]],
        pairs: set[tuple[int, int]],
        into: bool,
    ) -> None:
        pair = numbers[0].get(member, -1), numbers[1].get(role, -1)
        try:
            if into:
                roles.assign(member, role, meta=META)
                assert -1 not in pair
                pairs.add(pair)
            else:
                roles.revoke(member, role, meta=META)
                pairs.discard(pair)
        except RecordNotFound:
            assert -1 in pair or (not into and pair not in pairs)

    # ── what they may ───────────────────────────────────────────────────────────────────────────────────────

    @rule(team=_teams, right=_rights, on=st.booleans())
    def grant_over_realm(self, team: str, right: Right, on: bool) -> None:
        number = self.model.teams.get(team, -1)
        try:
            if on:
                realm_grants(self.kernel).grant(team, right, meta=META)
                self.model.realm.add((number, right))
            else:
                realm_grants(self.kernel).revoke(team, right, meta=META)
                self.model.realm.discard((number, right))
        except RecordNotFound:
            assert (number, right) not in self.model.realm

    @rule(group=_groups, right=_rights, path=_paths, on=st.booleans())
    def grant_over_catalog(self, group: str, right: Right, path: KeyPath, on: bool) -> None:
        number = self.model.groups.get(group, -1)
        try:
            if on:
                catalog_grants(self.kernel, CATALOG).grant(group, right, path, meta=META)
                self.model.catalog.add((number, right, path))
            else:
                catalog_grants(self.kernel, CATALOG).revoke(group, right, path, meta=META)
                self.model.catalog.discard((number, right, path))
        except RecordNotFound:
            assert (number, right, path) not in self.model.catalog

    @rule(name=_people)
    def one_that_is_there_is_not_made_again(self, name: str) -> None:
        if name in self.model.people:
            try:
                Principals(self.kernel, cost=CHEAP).create(name, meta=META)
            except RecordExists:
                return
            raise AssertionError(f"{name} was made twice")

    # ── what must hold ──────────────────────────────────────────────────────────────────────────────────────

    @invariant()
    def everyone_may_what_the_model_says(self) -> None:
        for person in PEOPLE:
            found = effective_rights(self.kernel, person, [CATALOG])
            principal = self.remembered.principal(person)
            roles = self.remembered.roles(person, "" if principal is None else principal.id, ())
            held = self.remembered.in_catalog(CATALOG, roles.roles)
            assert tuple(sorted(roles.roles)) == found.roles
            for right, key in itertools.product(ASKED, KEYS):
                expected = self.model.may(person, right, key)
                type(self).allowed += expected
                assert (found.realm.allows(right, key) or found.catalogs[CATALOG].allows(right, key)) == expected
                assert (roles.held.allows(right, key) or held.allows(right, key)) == expected


def test_rights_agree_with_a_model_after_any_changes() -> None:
    run_state_machine_as_test(AccessMachine, settings=settings(max_examples=40, stateful_step_count=30, deadline=None))
    assert AccessMachine.allowed > 100
