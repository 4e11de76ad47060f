"""Identities on every backend: secrets, keys of tokens and denials are mutable rows; roles and grants are commits."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from headwater.persistence.realms.realms import Realms
from headwater.persistence.records.principal_records import KEYS_TYPE, SECRET_TYPE, has_secret
from headwater.persistence.records.records import head_records
from headwater.persistence.store import RealmKernel, Store
from headwater.producer.access.effective import effective_rights
from headwater.producer.access.grants import catalog_grants, realm_grants
from headwater.producer.access.principals import Principals
from headwater.producer.access.rights import Right, Securable
from headwater.producer.access.roles import catalog_roles, principal_roles
from headwater.producer.access.writing import WriteMeta
from headwater.service.auth.caller import Caller
from headwater.service.auth.rights import denials as denials_module
from headwater.service.auth.rights.denials import DENIAL_TYPE, Denials
from headwater.service.auth.tokens.signing_keys import SigningKeys
from tests.support.models.realm_cases import CHEAP, realms_of, store_over

META = WriteMeta("tester")


@pytest.fixture(scope="module")
def store(store_url: str) -> Iterator[Store]:
    with store_over(store_url) as opened:
        yield opened


@pytest.fixture(scope="module")
def realms(store: Store) -> Realms:
    return realms_of(store)


@pytest.fixture
def kernel(realms: Realms) -> RealmKernel:
    name = f"a-{secrets.token_hex(6)}"
    realms.create(name)
    realms.init(name)
    return realms.require_active(name)


def test_a_principal_gets_its_rights_by_roles_and_loses_them_with_one(kernel: RealmKernel) -> None:
    made = Principals(kernel, cost=CHEAP).create("alice", meta=META)
    assert made.credentials is not None
    principal_roles(kernel).create("team", meta=META)
    principal_roles(kernel).assign("alice", "team", meta=META)
    realm_grants(kernel).grant("team", Right.POLICY_READ, meta=META)
    catalog_roles(kernel, 7).create("readers", meta=META)
    catalog_roles(kernel, 7).assign("team", "readers", meta=META)
    catalog_grants(kernel, 7).grant("readers", Right.CATALOG_READ, ("db",), meta=META)
    found = effective_rights(kernel, "alice", [7, 8])
    assert found.realm.allows(Right.POLICY_READ) and found.catalogs[7].allows(Right.TABLE_READ, ("db", "t"))
    assert not found.catalogs[8].paths
    principal_roles(kernel).delete("team", meta=META)
    assert effective_rights(kernel, "alice", [7]).roles == ()


def test_a_secret_is_found_by_its_id_and_its_row_is_removed_by_rotation(kernel: RealmKernel) -> None:
    principals = Principals(kernel, cost=CHEAP)
    first = principals.create("alice", meta=META).credentials
    second = principals.rotate_secret("alice", overlap_seconds=60, meta=META).credentials
    assert first is not None and second is not None

    def counts(secret: str) -> bool:
        record = head_records(kernel, "principals").get(("alice",))
        assert record is not None
        return has_secret(kernel, record.value, secret)

    assert counts(first.client_secret) and counts(second.client_secret) and not counts("00000000_x")
    third = principals.rotate_secret("alice", meta=META).credentials
    assert third is not None
    assert (counts(first.client_secret), counts(second.client_secret), counts(third.client_secret)) == (False, False, True)
    principals.delete("alice", meta=META)
    rows = kernel.store.backend.list_mutable(kernel.realm, SECRET_TYPE)
    assert [row.key.partition(".")[0] for row in rows] == [principals.get("root").client_id]


def test_workers_that_need_a_key_at_once_agree_on_one(kernel: RealmKernel) -> None:
    workers = [
        SigningKeys(kernel.store, rotate_seconds=3_600, outlive_seconds=60, entropy=secrets.token_bytes) for _ in range(4)
    ]
    with ThreadPoolExecutor(4) as pool:
        keys = list(pool.map(lambda worker: worker.current(kernel.realm), workers))
    assert len({key.id for key in keys}) == 1
    workers[0].rotate(kernel.realm)
    newest = workers[0].current(kernel.realm)
    assert newest.id != keys[0].id and workers[0].public(kernel.realm, keys[0].id) is not None
    (row,) = kernel.store.backend.list_mutable(kernel.realm, KEYS_TYPE)
    assert row.version == 2
    other = SigningKeys(kernel.store, rotate_seconds=3_600, outlive_seconds=60, entropy=secrets.token_bytes)
    assert other.current(kernel.realm) == newest and other.public(kernel.realm, "unknown") is None


def test_many_denials_stay_within_their_limit_and_the_newest_are_listed(
    kernel: RealmKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(denials_module, "RING_ROWS", 8)
    caller = Caller(name="mallory", realm=kernel.realm_name, instance=kernel.realm)
    kept = Denials(kernel.store, ring=3)
    for number in range(30):
        kept.add(caller, Right.TABLE_READ, Securable("lake", (f"t{number:02d}",)))
        kept.add(caller, Right.TABLE_READ, Securable("lake", (f"t{number:02d}",)))
    while kept.flush():
        pass
    assert len(kernel.store.backend.list_mutable(kernel.realm, DENIAL_TYPE)) == 8
    listed = kept.list(kernel.realm)
    assert [one.key for one in listed] == [(f"t{number:02d}",) for number in range(29, 21, -1)]
    assert all(one.count == 2 and one.principal == "mallory" for one in listed)
    restarted = Denials(kernel.store, ring=3)
    restarted.add(caller, Right.TABLE_READ, Securable("lake", ("after",)))
    restarted.flush()
    assert [one.key for one in restarted.list(kernel.realm, limit=2)] == [("after",), ("t29",)]
