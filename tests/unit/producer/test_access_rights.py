"""Rights, what they imply, and what roles add up to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.persistence.realms.realms import Realms
from headwater.persistence.store import RealmKernel, open_store
from headwater.producer.access.effective import Held, effective_rights
from headwater.producer.access.grants import catalog_grants, realm_grants
from headwater.producer.access.policies import Policies, Target
from headwater.producer.access.principals import Principals
from headwater.producer.access.rights import IMPLIED, REALM_ONLY, Right, implied_by, right_of
from headwater.producer.access.roles import catalog_roles, principal_roles
from headwater.producer.access.writing import WriteMeta
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.schemas.errors import (
    Conflict,
    HeadwaterError,
    InvalidInput,
    InvalidName,
    RecordChanged,
    RecordExists,
    RecordNotFound,
)
from tests.support.models.realm_cases import CHEAP

META = WriteMeta("tester", "why", {"a": "b"})
_paths = st.lists(st.sampled_from(["a", "b", "c"]), max_size=3).map(tuple)


@pytest.fixture
def kernel() -> Iterator[RealmKernel]:
    with open_store("memory://", create=True) as store:
        realms = Realms(store, secret_cost=CHEAP)
        realms.create("r")
        realms.init("r")
        kernel = realms.require_active("r")
        Catalogs(kernel).create("lake", meta=CommitMeta("tester"))
        yield kernel


def _member(kernel: RealmKernel, name: str = "alice") -> None:
    """Alice has the principal role `team`, which has the catalog role `readers` of catalog 1."""
    Principals(kernel, cost=CHEAP).create(name, meta=META)
    principal_roles(kernel).create("team", meta=META)
    principal_roles(kernel).assign(name, "team", meta=META)
    catalog_roles(kernel, 1).create("readers", meta=META)
    catalog_roles(kernel, 1).assign("team", "readers", meta=META)


def _may(kernel: RealmKernel, right: Right, *key: str, name: str = "alice") -> bool:
    found = effective_rights(kernel, name, [1])
    return found.realm.allows(right, key) or found.catalogs[1].allows(right, key)


# ── the table ───────────────────────────────────────────────────────────────────────────────────────────────


def test_what_a_right_implies_is_closed_and_has_no_circle() -> None:
    for right in Right:
        assert right in implied_by(right)
        for implied in implied_by(right):
            assert implied_by(implied) <= implied_by(right)
            assert implied == right or right not in implied_by(implied)


def test_the_realm_right_implies_all_but_those_over_the_system() -> None:
    assert implied_by(Right.REALM_MANAGE) == frozenset(Right) - {Right.SYSTEM_MANAGE}
    assert not any(Right.SYSTEM_MANAGE in implied for implied in IMPLIED.values())


def test_reading_implies_no_right_that_writes() -> None:
    writing = {
        right for right in Right if right.rpartition(".")[2] in ("create", "write", "drop", "assign", "delete", "manage")
    }
    for right in (
        Right.CATALOG_READ,
        Right.FEED_READ,
        Right.TABLE_READ,
        Right.NAMESPACE_READ,
        Right.VIEW_READ,
        Right.POLICY_READ,
    ):
        assert not implied_by(right) & writing


def test_an_unknown_right_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="fly"):
        right_of("fly")


@given(st.frozensets(_paths), _paths)
def test_a_right_holds_at_a_path_and_below_it_and_nowhere_else(held: frozenset[tuple[str, ...]], key: tuple[str, ...]) -> None:
    expected = any(key[: len(path)] == path for path in held)
    assert Held({Right.TABLE_READ: held} if held else {}).allows(Right.TABLE_READ, key) == expected


# ── what roles add up to ────────────────────────────────────────────────────────────────────────────────────


def test_the_first_principal_may_do_everything_in_its_realm(kernel: RealmKernel) -> None:
    found = effective_rights(kernel, "root", [1])
    assert found.roles == ("realm-admin",)
    assert all(found.realm.allows(right, ("any", "key")) for right in frozenset(Right) - {Right.SYSTEM_MANAGE})


def test_a_grant_over_a_path_of_a_catalog_reaches_its_members_and_no_further(kernel: RealmKernel) -> None:
    _member(kernel)
    assert not _may(kernel, Right.TABLE_READ, "db", "t")
    catalog_grants(kernel, 1).grant("readers", Right.CATALOG_READ, ("db",), meta=META)
    assert _may(kernel, Right.TABLE_READ, "db", "t") and _may(kernel, Right.FEED_READ, "db")
    assert not _may(kernel, Right.TABLE_READ, "dc", "t") and not _may(kernel, Right.TABLE_READ)
    assert not _may(kernel, Right.TABLE_WRITE, "db", "t")
    catalog_grants(kernel, 1).revoke("readers", Right.CATALOG_READ, ("db",), meta=META)
    assert not _may(kernel, Right.TABLE_READ, "db", "t")


def test_a_grant_over_the_realm_holds_in_every_catalog(kernel: RealmKernel) -> None:
    _member(kernel)
    realm_grants(kernel).grant("team", Right.TABLE_READ, meta=META)
    assert _may(kernel, Right.TABLE_READ, "any", "t") and not _may(kernel, Right.VIEW_READ, "any", "v")


@pytest.mark.parametrize("gone", ["principal", "principal role", "catalog role", "assignment", "catalog assignment"])
def test_a_right_ends_with_any_link_and_recreating_the_names_does_not_restore_it(kernel: RealmKernel, gone: str) -> None:
    _member(kernel)
    catalog_grants(kernel, 1).grant("readers", Right.TABLE_READ, meta=META)
    assert _may(kernel, Right.TABLE_READ, "t")
    if gone == "principal":
        Principals(kernel, cost=CHEAP).delete("alice", meta=META)
        Principals(kernel, cost=CHEAP).create("alice", meta=META)
    elif gone == "principal role":
        principal_roles(kernel).delete("team", meta=META)
        principal_roles(kernel).create("team", meta=META)
        principal_roles(kernel).assign("alice", "team", meta=META)
    elif gone == "catalog role":
        catalog_roles(kernel, 1).delete("readers", meta=META)
        catalog_roles(kernel, 1).create("readers", meta=META)
        catalog_roles(kernel, 1).assign("team", "readers", meta=META)
    elif gone == "assignment":
        principal_roles(kernel).revoke("alice", "team", meta=META)
    else:
        catalog_roles(kernel, 1).revoke("team", "readers", meta=META)
    assert not _may(kernel, Right.TABLE_READ, "t")


def test_a_role_that_a_token_names_counts_only_if_the_realm_has_it(kernel: RealmKernel) -> None:
    principal_roles(kernel).create("team", meta=META)
    realm_grants(kernel).grant("team", Right.TABLE_READ, meta=META)
    found = effective_rights(kernel, "oidc:someone", [], also_roles=["team", "nobody-made-this"])
    assert found.roles == ("team",) and found.realm.allows(Right.TABLE_READ)


# ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_write_is_one_commit_with_author_and_message_and_a_no_op_is_none(kernel: RealmKernel) -> None:
    principal_roles(kernel).create("team", meta=META)
    first = realm_grants(kernel).grant("team", Right.TABLE_READ, meta=META).outcome
    again = realm_grants(kernel).grant("team", Right.TABLE_READ, meta=META).outcome
    assert first.changed and first.pointer == "grants" and not again.changed and again.seq == first.seq
    assert first.logged is not None and again.logged is None
    logged = kernel.walk.load(first.logged.entry_id)
    assert (logged.entry.author, logged.entry.message, logged.entry.headers) == ("tester", "why", {"a": "b"})


def test_the_same_request_id_writes_once(kernel: RealmKernel) -> None:
    meta = WriteMeta("tester", request_id="once")
    first = principal_roles(kernel).create("team", meta=meta)
    again = principal_roles(kernel).create("team", meta=meta)
    assert again.outcome.replayed and again.value == first.value and again.outcome.seq == first.outcome.seq


def test_a_principal_created_again_under_its_request_id_has_one_valid_secret_the_last_that_was_shown(
    kernel: RealmKernel,
) -> None:
    """A kill between the commit and the answer: whoever asks again is shown a secret, and the lost one counts no more."""
    meta, principals = WriteMeta("tester", request_id="create-alice"), Principals(kernel, cost=CHEAP)
    first = principals.create("alice", meta=meta)
    again = principals.create("alice", meta=meta)
    assert first.credentials is not None and again.credentials is not None
    assert again.outcome.replayed and again.credentials != first.credentials
    assert [one.id for one in again.principal.secrets] == [again.credentials.client_secret.partition("_")[0]]
    assert len(principals.list()) == 2


def test_rotation_leaves_the_newest_old_secret_for_the_overlap_and_a_reset_none(kernel: RealmKernel) -> None:
    principals = Principals(kernel, cost=CHEAP)
    principals.create("alice", meta=META)
    second = principals.rotate_secret("alice", overlap_seconds=60, meta=META).principal
    third = principals.rotate_secret("alice", overlap_seconds=60, meta=META).principal
    assert [bool(one.expires_at) for one in second.secrets] == [True, False]
    assert len(third.secrets) == 2 and third.secrets[0].id == second.secrets[1].id
    assert len(principals.rotate_secret("alice", meta=META).principal.secrets) == 1


def test_rows_of_secrets_that_no_record_names_are_forgotten_and_others_stay(kernel: RealmKernel) -> None:
    principals = Principals(kernel, cost=CHEAP)
    principals.create("alice", meta=META)
    with pytest.raises(RecordExists):
        principals.create("alice", meta=META)  # its row was kept before it was refused
    rows = kernel.store.backend.list_mutable(kernel.realm, "principal-secret")
    assert len(rows) == 3
    assert principals.forget_unreferenced() == 0, "a row may be waiting for its record"
    assert principals.forget_unreferenced(older_than_seconds=-1) == 1
    assert len(kernel.store.backend.list_mutable(kernel.realm, "principal-secret")) == 2


def test_a_write_over_an_old_version_is_refused(kernel: RealmKernel) -> None:
    principals = Principals(kernel, cost=CHEAP)
    old = principals.create("alice", meta=META).principal
    principals.update("alice", properties={"a": "1"}, version=old.version, meta=META)
    for write in (
        lambda: principals.update("alice", properties={"a": "2"}, version=old.version, meta=META),
        lambda: principals.delete("alice", version=old.version, meta=META),
        lambda: principals.rotate_secret("alice", version=old.version, meta=META),
    ):
        with pytest.raises(RecordChanged):
            write()
    assert principals.get("alice").properties == {"a": "1"}


@pytest.mark.parametrize(
    ("write", "error"),
    [
        (lambda k: principal_roles(k).assign("nobody", "realm-admin", meta=META), RecordNotFound),
        (lambda k: principal_roles(k).assign("root", "nothing", meta=META), RecordNotFound),
        (lambda k: realm_grants(k).grant("nothing", Right.TABLE_READ, meta=META), RecordNotFound),
        (lambda k: realm_grants(k).revoke("realm-admin", Right.TABLE_READ, meta=META), RecordNotFound),
        (lambda k: realm_grants(k).grant("realm-admin", Right.TABLE_READ, ("db",), meta=META), InvalidInput),
        (lambda k: catalog_roles(k, 1).assign("nothing", "r", meta=META), RecordNotFound),
        (lambda k: principal_roles(k).create("a b", meta=META), InvalidName),
        (lambda k: Principals(k).create("x" * 200, meta=META), InvalidName),
        (lambda k: Principals(k).create("\u0000", meta=META), InvalidName),
        (lambda k: Principals(k).rotate_secret("root", overlap_seconds=-1, meta=META), InvalidInput),
        (lambda k: Principals(k).update("root", properties={}, version="xyz", meta=META), InvalidInput),
    ],
)
def test_invalid_input_is_refused_and_changes_nothing(kernel: RealmKernel, write: object, error: type[HeadwaterError]) -> None:
    def heads() -> dict[str, int]:
        names = kernel.store.backend.list_names(kernel.realm)
        return {name: row.seq for name, row in kernel.store.backend.read_pointers(kernel.realm, names).items()}

    before = heads()
    with pytest.raises(error):
        write(kernel)  # type: ignore[operator]
    assert heads() == before


@pytest.mark.parametrize("right", sorted(REALM_ONLY))
def test_rights_over_a_realm_are_not_granted_over_a_catalog(kernel: RealmKernel, right: Right) -> None:
    catalog_roles(kernel, 1).create("r", meta=META)
    with pytest.raises(InvalidInput):
        catalog_grants(kernel, 1).grant("r", right, meta=META)


# ── policies ────────────────────────────────────────────────────────────────────────────────────────────────


def test_of_each_type_the_nearest_policy_applies(kernel: RealmKernel) -> None:
    policies = Policies(kernel)
    for name, type_ in (("far", "compaction"), ("near", "compaction"), ("expiry", "expiry")):
        policies.create(name, type=type_, meta=META)
    policies.attach("far", Target(), meta=META)
    policies.attach("near", Target(1, ("db",)), meta=META)
    policies.attach("expiry", Target(1), meta=META)

    def applies(target: Target) -> set[str]:
        return {policy.name for policy, _ in policies.applicable(target)}

    assert applies(Target(1, ("db", "t"))) == {"near", "expiry"}
    assert applies(Target(1, ("other",))) == {"far", "expiry"}
    assert applies(Target(2)) == {"far"}


def test_a_policy_that_is_mapped_is_deleted_only_with_its_mappings(kernel: RealmKernel) -> None:
    policies = Policies(kernel)
    policies.create("p", type="compaction", meta=META)
    policies.attach("p", Target(1), meta=META)
    with pytest.raises(Conflict):
        policies.delete("p", meta=META)
    policies.delete("p", detach_all=True, meta=META)
    assert policies.list() == [] and policies.mappings() == []
