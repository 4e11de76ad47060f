"""Readers that follow a realm in the process are told when it is given up or re-created: nothing of it would ever come."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

import headwater
from headwater import IcebergTable, Put
from headwater.consumers.clients import realm_watch
from headwater.embedded import Headwater, RealmHandle
from headwater.persistence.realms.realms import Realms
from headwater.schemas.cursor import Position
from headwater.schemas.errors import CursorReset

MAIN = "cat/1/heads/main"


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Headwater]:
    monkeypatch.setattr(realm_watch, "LOOK_SECONDS", 0.0)
    with headwater.open("memory://", create=True) as opened:
        yield opened


def filled(engine: Headwater) -> tuple[RealmHandle, Position]:
    realm = engine.ensure_realm("guest")
    realm.ensure_catalog("lake").branch().commit([Put(("t",), IcebergTable("s3://t"))])
    feed = realm.feed
    return realm, feed.page(MAIN, feed.start(MAIN, "earliest")).last


def give_up(engine: Headwater) -> None:
    realms = Realms(engine.store)
    realms.deactivate("guest")
    realms.purge("guest")


def test_a_closed_realm_is_waited_for(engine: Headwater) -> None:
    realm, at = filled(engine)
    Realms(engine.store).deactivate("guest")
    assert realm.feed.page(MAIN, at).last == at


@pytest.mark.parametrize("is_made_again", [False, True])
def test_every_follower_of_a_purged_realm_is_reset(engine: Headwater, is_made_again: bool) -> None:
    realm, at = filled(engine)
    give_up(engine)
    if is_made_again:
        Realms(engine.store).finish_purge("guest")
        Realms(engine.store).delete("guest")
        filled(engine)
    for _ in range(2):
        with pytest.raises(CursorReset):
            realm.feed.page(MAIN, at, wait_seconds=0.01)
    with pytest.raises(CursorReset):
        asyncio.run(realm.feed.page_async(MAIN, at, wait_seconds=0.01))
