"""Checks a client's id and secret; a refusal is the same, and takes as long, whatever is wrong."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable

import msgspec

from headwater.persistence.clock import Clock
from headwater.persistence.records.principal_records import read_secret
from headwater.persistence.records.secret_hashes import ScryptCost, hash_secret, is_secret
from headwater.producer.access.principals import Principal
from headwater.schemas.errors import HeadwaterError, NotAuthenticated, NotFound, RealmNotActive
from headwater.service.auth.rights.authorizer import RightsOfRealms
from headwater.service.auth.rights.rate_limits import TokenBuckets, too_many

HASHES_AT_ONCE = 2
"""Each takes a core and 16 MiB for as long as it runs."""
WAITING_MAX = 64
CLIENT_TRIES, CLIENT_TRY_SECONDS = 10, 6.0
"""Failures of one client from one address: so many at once, then one in so many seconds."""
PEER_TRIES, PEER_TRY_SECONDS = 100, 1.0
"""The same for one address, whatever clients it names."""
SECRET_BYTES_MAX = 1_000


class Proven(msgspec.Struct, frozen=True, kw_only=True):
    realm: str
    instance: str
    principal: Principal
    secret_id: str


class CredentialCheck:
    def __init__(self, realms: RightsOfRealms, clock: Clock, *, cost: ScryptCost) -> None:
        self._realms = realms
        self._clock = clock
        self._nobodys_hash = hash_secret(secrets.token_hex(16), cost, secrets.token_bytes)
        self._at_once = asyncio.Semaphore(HASHES_AT_ONCE)
        self._waiting = 0
        self._clients = TokenBuckets(1 / CLIENT_TRY_SECONDS, CLIENT_TRIES)
        self._peers = TokenBuckets(1 / PEER_TRY_SECONDS, PEER_TRIES)
        self.failures = 0

    async def prove(self, realm: str, client_id: str, secret: str, peer: str) -> Proven:
        """`NotAuthenticated`, or `TooManyRequests` after too many failures; then nothing is compared at all."""
        client = (realm, client_id, peer)
        self._take_try(client, peer)
        if len(secret.encode(errors="replace")) > SECRET_BYTES_MAX:
            raise self._failed()
        try:
            proven = await self._compared(lambda: self._prove(realm, client_id, secret))
        except HeadwaterError:
            self._give_back_try(client, peer)  # nothing was compared
            raise
        if proven is None:
            raise self._failed()
        self._give_back_try(client, peer)
        return proven

    async def _compared(self, prove: Callable[[], Proven | None]) -> Proven | None:
        """Off the event loop, few at once."""
        if self._waiting >= WAITING_MAX:
            raise too_many("too many clients ask for tokens right now.", 1.0)
        self._waiting += 1
        try:
            async with self._at_once:
                return await asyncio.to_thread(prove)
        finally:
            self._waiting -= 1

    def _prove(self, realm: str, client_id: str, secret: str) -> Proven | None:
        """⚠ One hash is compared in any case: for an unknown realm, client or secret id it is a dummy."""
        try:
            rights = self._realms.require(realm)
        except (NotFound, RealmNotActive):
            rights = None
        kept = read_secret(rights.kernel, client_id, secret) if rights is not None and _is_plain(client_id + secret) else None
        is_right = is_secret(secret, self._nobodys_hash if kept is None else kept.hash)
        if rights is None or kept is None or not is_right:
            return None
        principal = rights.principal(kept.principal)
        secret_id = secret.partition("_")[0]
        if principal is None or principal.client_id != client_id or not self._counts(principal, secret_id):
            return None
        return Proven(realm=realm, instance=rights.kernel.realm, principal=principal, secret_id=secret_id)

    def _counts(self, principal: Principal, secret_id: str) -> bool:
        now = self._clock.now_micros()
        return any(one.id == secret_id and not 0 < one.expires_at <= now for one in principal.secrets)

    def _take_try(self, client: tuple[str, str, str], peer: str) -> None:
        """⚠ Taken before the comparison and given back if it succeeds: tries that come at once must not all pass the check."""
        wait_seconds = self._clients.take(client)
        if not wait_seconds:
            wait_seconds = self._peers.take(peer)
            if wait_seconds:
                self._clients.give_back(client)
        if wait_seconds:
            raise too_many("too many wrong secrets came from here.", wait_seconds)

    def _give_back_try(self, client: tuple[str, str, str], peer: str) -> None:
        self._clients.give_back(client)
        self._peers.give_back(peer)

    def _failed(self) -> NotAuthenticated:
        self.failures += 1
        return NotAuthenticated(
            "the client's id or secret is wrong.", field="client_secret", remedy="Check both, and the realm."
        )


def _is_plain(text: str) -> bool:
    """⚠ What we never issued must not reach a store: each store has its own error for names that it cannot keep."""
    return text.isascii() and text.isprintable()
