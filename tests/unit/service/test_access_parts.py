"""Parts of identity by themselves: buckets, keys that rotate, rights that are remembered, and plug-ins."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterator
from importlib import metadata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.persistence.reading.head_watch import HeadWatch
from headwater.persistence.realms.realms import Realms
from headwater.persistence.store import Store, StoreOptions, open_store
from headwater.producer.access.grants import realm_grants
from headwater.producer.access.principals import Principals
from headwater.producer.access.rights import Right, Securable
from headwater.producer.access.roles import principal_roles
from headwater.producer.access.writing import WriteMeta
from headwater.schemas.errors import (
    HeadwaterError,
    InvalidInput,
    NotAuthenticated,
    NotPermitted,
    StoreUnavailable,
    TooManyRequests,
)
from headwater.service import auth_factory
from headwater.service.auth.caller import Caller
from headwater.service.auth.rights.authorizer import RightsOfRealms
from headwater.service.auth.rights.rate_limits import RateLimits, TokenBuckets
from headwater.service.auth.rights.realm_rights import RealmRights
from headwater.service.auth.tokens import credentials as credentials_module
from headwater.service.auth.tokens.credentials import CLIENT_TRIES, CredentialCheck
from headwater.service.auth.tokens.signing_keys import LOOK_AGAIN_SECONDS, STRANGERS_BURST, SigningKeys
from headwater.service.auth_factory import build_access
from headwater.service.config import ServeConfig
from headwater.service.operations.realm_feeds import RealmFeeds
from tests.support.faults.manual_clock import ManualClock
from tests.support.models.realm_cases import CHEAP

META = WriteMeta("test")


class Seconds:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store(f"memory://parts-{secrets.token_hex(6)}", create=True) as opened:
        realms = Realms(opened, secret_cost=CHEAP)
        realms.create("r")
        realms.init("r")
        yield opened


# ── rates ───────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.tuples(st.floats(0, 3), st.sampled_from("ab")), max_size=60))
def test_a_bucket_never_gives_more_than_its_burst_and_its_rate(asked: list[tuple[float, str]]) -> None:
    clock = Seconds()
    buckets = TokenBuckets(2.0, 5.0, clock)
    given_out = {"a": 0, "b": 0}
    for wait, key in asked:
        clock.now += wait
        if not buckets.take(key):
            given_out[key] += 1
        assert given_out[key] <= 5 + 2 * clock.now + 1e-6


def test_a_caller_that_waits_for_retry_after_is_served() -> None:
    clock = Seconds()
    limits = RateLimits(0.5, 1, clock)
    caller = Caller(name="a", realm="r", instance="r#1")
    limits.take(caller)
    with pytest.raises(TooManyRequests) as refused:
        limits.take(caller)
    clock.now += float(str(refused.value.facts["retry_after_seconds"]))
    limits.take(caller)
    assert limits.refused == 1


def test_the_same_name_from_two_issuers_is_two_callers() -> None:
    """Neither takes the other's rate, nor owns what the other has kept."""
    limits = RateLimits(0.5, 1, Seconds())
    one, other = (Caller(name="corp:ann", realm="r", instance="r#1", issuer=f"https://{idp}.example") for idp in ("a", "b"))
    limits.take(one)
    limits.take(other)
    assert one.owner_id != other.owner_id
    assert {one.owner_id.count(":"), one.owner_id.count("#")} == {0, 1}


def test_concurrent_wrong_secrets_are_compared_only_up_to_the_limit_of_one_client(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials_module, "CLIENT_TRY_SECONDS", 1e9)  # none comes free while the test runs
    compared: list[str] = []
    real = credentials_module.is_secret

    def counted(secret: str, hashed: str) -> bool:
        compared.append(secret)
        return real(secret, hashed)

    monkeypatch.setattr(credentials_module, "is_secret", counted)
    feeds = RealmFeeds(store, encoded_bytes_max=0)
    client = Principals(feeds.require("r").kernel, cost=CHEAP).create("ann", meta=META).credentials
    assert client is not None

    async def guess() -> list[object]:
        check = CredentialCheck(RightsOfRealms(feeds), store.clock, cost=CHEAP)
        tries = [check.prove("r", client.client_id, f"0badc0de_{number}", "10.0.0.1") for number in range(40)]
        found: list[object] = await asyncio.gather(*tries, return_exceptions=True)
        with pytest.raises(TooManyRequests):  # the right one too, from there
            await check.prove("r", client.client_id, client.client_secret, "10.0.0.1")
        await check.prove("r", client.client_id, client.client_secret, "10.0.0.2")
        return found

    outcomes = [type(outcome) for outcome in asyncio.run(guess())]
    assert outcomes.count(NotAuthenticated) == CLIENT_TRIES and outcomes.count(TooManyRequests) == 40 - CLIENT_TRIES
    assert len(compared) == CLIENT_TRIES + 1
    feeds.close()


# ── keys ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_key_is_replaced_at_its_age_and_kept_until_its_last_token_has_ended() -> None:
    clock, seconds = ManualClock(), Seconds()
    with open_store("memory://", create=True, clock=clock) as store:
        keys = SigningKeys(store, rotate_seconds=1_000, outlive_seconds=100, entropy=secrets.token_bytes, monotonic=seconds)
        first = keys.current("r#1")

        def pass_by(passed: int) -> None:
            clock.move(passed)
            seconds.now += passed

        pass_by(900)
        assert keys.current("r#1") == first
        pass_by(101)
        second = keys.current("r#1")
        assert second.id != first.id and keys.public("r#1", first.id) is not None
        pass_by(1_001)
        third = keys.current("r#1")
        assert third.id not in (first.id, second.id)
        assert keys.public("r#1", second.id) is not None and keys.public("r#1", first.id) is None


def test_keys_are_not_shown_when_they_are_printed(store: Store) -> None:
    keys = SigningKeys(store, rotate_seconds=1_000, outlive_seconds=100, entropy=secrets.token_bytes)
    made = keys.current("r#1")
    assert made.private.hex() not in f"{made} {made!r}" and repr(made.private) not in f"{made} {made!r}"


def test_a_worker_notices_voided_keys_within_its_bound(store: Store) -> None:
    seconds = Seconds()
    one, other = (
        SigningKeys(store, rotate_seconds=10_000, outlive_seconds=100, entropy=secrets.token_bytes, monotonic=seconds)
        for _ in range(2)
    )
    made = one.current("r#1")
    assert other.public("r#1", made.id) is not None
    one.rotate("r#1", void_old=True)
    seconds.now += LOOK_AGAIN_SECONDS + 1
    assert other.known_public("r#1", made.id) is None and other.public("r#1", made.id) is None


def test_tokens_of_unknown_realms_cause_a_bounded_number_of_reads(store: Store) -> None:
    seconds = Seconds()
    keys = SigningKeys(store, rotate_seconds=1, outlive_seconds=1, entropy=secrets.token_bytes, monotonic=seconds)
    for number in range(int(STRANGERS_BURST)):
        assert keys.public(f"unknown#{number}", "k") is None
    with pytest.raises(TooManyRequests):
        keys.public("unknown#again", "k")


# ── what is remembered of rights ────────────────────────────────────────────────────────────────────────────


def test_rights_are_answered_from_memory_until_any_process_changes_them(store: Store) -> None:
    other = Store(store.backend, StoreOptions(), store.clock)
    kernel, theirs = Realms(store).require_active("r"), Realms(other).require_active("r")
    principal_roles(theirs).create("team", meta=META)
    alice = Principals(theirs, cost=CHEAP).create("alice", meta=META).principal
    principal_roles(theirs).assign("alice", "team", meta=META)
    realm_grants(theirs).grant("team", Right.TABLE_READ, meta=META)
    watch = HeadWatch(kernel)
    try:
        rights = RealmRights(kernel, watch)
        assert rights.known_roles("alice", alice.id, ()) is None
        assert rights.roles("alice", alice.id, ()).held.allows(Right.TABLE_READ)
        known = rights.known_roles("alice", alice.id, ())
        assert known is not None and known.held.allows(Right.TABLE_READ)
        realm_grants(theirs).revoke("team", Right.TABLE_READ, meta=META)
        deadline = time.monotonic() + 20
        while (known := rights.known_roles("alice", alice.id, ())) is not None and known.held.allows(Right.TABLE_READ):
            assert time.monotonic() < deadline, "a revoked right is believed forever"
            time.sleep(0.01)
        assert not rights.roles("alice", alice.id, ()).held.allows(Right.TABLE_READ)
    finally:
        watch.close()


def test_rights_that_cannot_be_read_again_are_not_believed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is away for longer than heads stay fresh: then nobody is let in on old rights."""
    kernel = Realms(store).require_active("r")
    root = Principals(kernel).get("root")
    watch = HeadWatch(kernel)
    failed: list[str] = []

    def away(*_: object, **__: object) -> Any:
        failed.append("asked")
        raise StoreUnavailable("away")

    try:
        rights = RealmRights(kernel, watch)
        assert rights.roles("root", root.id, ()).held.allows(Right.REALM_MANAGE)
        for name in ("moves_since", "read_pointer", "read_pointers"):
            monkeypatch.setattr(store.backend, name, away)
        deadline = time.monotonic() + 20
        while rights.known_roles("root", root.id, ()) is not None:
            assert time.monotonic() < deadline, "old rights are believed forever"
            time.sleep(0.02)
        with pytest.raises(StoreUnavailable):
            rights.roles("root", root.id, ())
        assert failed, "the fault never fired"
    finally:
        monkeypatch.undo()
        watch.close()


# ── plug-ins ────────────────────────────────────────────────────────────────────────────────────────────────


class Nobody:
    """An authorizer of somebody else's."""

    def __init__(self, parts: Any) -> None:
        self.parts = parts

    def known(self, caller: Caller, right: Right, over: Securable) -> bool | None:
        return False

    def allows(self, caller: Caller, right: Right, over: Securable) -> bool:
        return False

    def allows_somewhere(self, caller: Caller, right: Right | None, catalog: str) -> bool:
        return False


def test_another_authorizer_is_chosen_by_its_entry_point(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def installed(*, group: str, name: str) -> list[metadata.EntryPoint]:
        found = metadata.EntryPoint("nobody", f"{__name__}:Nobody", group)
        monkeypatch.setattr(metadata.EntryPoint, "load", lambda _: Nobody)
        return [found] if (group, name) == ("headwater.authorizers", "nobody") else []

    monkeypatch.setattr(auth_factory.metadata, "entry_points", installed)
    config = ServeConfig(store="memory://", store_options=StoreOptions(), authorizer="nobody", secret_cost=CHEAP)
    feeds = RealmFeeds(store, encoded_bytes_max=0)
    access = build_access(config, feeds)
    root = Caller(name="root", realm="r", instance=Realms(store).get("r").instance)
    with pytest.raises(NotPermitted):
        access.check(root, Right.REALM_MANAGE)
    access.close()
    feeds.close()


@pytest.mark.parametrize("setting", ["authorizer", "principal_provider"])
def test_a_plug_in_that_is_not_installed_is_refused_by_name(store: Store, setting: str) -> None:
    options: dict[str, Any] = {setting: "absent"}
    config = ServeConfig(store="memory://", store_options=StoreOptions(), secret_cost=CHEAP, **options)
    feeds = RealmFeeds(store, encoded_bytes_max=0)
    with pytest.raises(InvalidInput) as refused:
        build_access(config, feeds)
    assert refused.value.field == setting and isinstance(refused.value, HeadwaterError)
    feeds.close()
