"""The keys that sign a realm's tokens: created once, kept in the store, rotated.

They lie in one mutable row of the realm instance, so every worker and every restart agree, and no feed or export reads them. A
new key is added by CAS; the previous one stays until the last token that it signed has ended.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from headwater.persistence.clock import MICROS
from headwater.persistence.coordination.cas_rows import cas_row, next_row
from headwater.persistence.objects.object_types import OBJECT_TYPES, Life, ObjectType
from headwater.persistence.records.principal_records import KEYS_TYPE
from headwater.persistence.rows import NAME_BYTES_MAX, MutableRow
from headwater.persistence.store import Store
from headwater.schemas.errors import StoreUnavailable
from headwater.service.auth.rights.rate_limits import OneBucket

KEYS_KEY = "current"
KEYS_MAX = 8
TRIES_MAX = 20
LOOK_AGAIN_SECONDS = 30.0
"""How old a worker's copy of the keys may be; a key that it does not know makes it look earlier."""
UNKNOWN_AGAIN_SECONDS = 1.0
"""⚠ At most so often for each realm: forged tokens must not become reads of the store."""
STRANGERS_PER_SECOND, STRANGERS_BURST = 20.0, 100.0
"""How often realms without keys in this worker are looked up, for all names together."""
REALMS_KEPT_MAX = 1_000


class SigningKey(msgspec.Struct, frozen=True, array_like=True):
    id: str
    private: bytes
    """An Ed25519 private key."""
    created_at: int

    def __repr__(self) -> str:
        return f"SigningKey({self.id})"

    __str__ = __repr__


class SigningKeyRing(msgspec.Struct, frozen=True, array_like=True):
    """The row's payload: newest first."""

    keys: tuple[SigningKey, ...] = ()


OBJECT_TYPES.register(ObjectType(KEYS_TYPE, SigningKeyRing, Life.MUTABLE))


class _Known(msgspec.Struct, frozen=True):
    ring: SigningKeyRing
    looked_at: float
    public: dict[str, Ed25519PublicKey]


class SigningKeys:
    """Thread-safe. `known_public` never asks the store."""

    def __init__(
        self,
        store: Store,
        *,
        rotate_seconds: int,
        outlive_seconds: int,
        entropy: Callable[[int], bytes],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._rotate_micros = rotate_seconds * MICROS
        self._outlive_micros = outlive_seconds * MICROS
        self._entropy = entropy
        self._monotonic = monotonic
        self._known: dict[str, _Known] = {}
        self._strangers = OneBucket(STRANGERS_PER_SECOND, STRANGERS_BURST, monotonic)
        self._lock = threading.Lock()

    # ── verifying ───────────────────────────────────────────────────────────────────────────────────────────

    def known_public(self, instance: str, key_id: str) -> Ed25519PublicKey | None:
        known = self._known.get(instance)
        if known is None or self._monotonic() - known.looked_at > LOOK_AGAIN_SECONDS:
            return None
        return known.public.get(key_id)

    def public(self, instance: str, key_id: str) -> Ed25519PublicKey | None:
        """None if the realm instance has no such key. May ask the store, but not for every forged token."""
        found = self.known_public(instance, key_id)
        if found is not None or not _is_plain(instance):
            return found
        known = self._known.get(instance)
        if known is not None and self._monotonic() - known.looked_at < UNKNOWN_AGAIN_SECONDS:
            return None
        if known is None:
            self._strangers.check("tokens of unknown realms are looked up too often.")
        ring = _ring(self._read(instance))
        return self._learn(instance, ring).public.get(key_id) if ring.keys else None

    # ── signing ─────────────────────────────────────────────────────────────────────────────────────────────

    def current(self, instance: str) -> SigningKey:
        """The newest key, made or rotated if it is time to. Only for realms that are served."""
        known, now = self._known.get(instance), self._store.clock.now_micros()
        if known is not None and self._monotonic() - known.looked_at <= LOOK_AGAIN_SECONDS and self._is_young(known.ring, now):
            return known.ring.keys[0]
        for _ in range(TRIES_MAX):
            row = self._read(instance)
            ring = _ring(row)
            if self._is_young(ring, now):
                return self._learn(instance, ring).ring.keys[0]
            self._add_key(instance, row, ring, now)
        raise StoreUnavailable("the keys of a realm could not be rotated.", remedy="Try again.")

    def rotate(self, instance: str, *, void_old: bool = False) -> None:
        """A new key now; with `void_old` every token that was signed before ends within `LOOK_AGAIN_SECONDS`."""
        for _ in range(TRIES_MAX):
            row = self._read(instance)
            ring = SigningKeyRing() if void_old else _ring(row)
            if self._add_key(instance, row, ring, self._store.clock.now_micros()):
                self._learn(instance, _ring(self._read(instance)))
                return
        raise StoreUnavailable("the keys of a realm could not be rotated.", remedy="Try again.")

    def _add_key(self, instance: str, row: MutableRow | None, ring: SigningKeyRing, now: int) -> bool:
        """A ring with a key more, and without those whose tokens have all expired, if no other process has written it since."""
        made = SigningKey(self._entropy(8).hex(), self._entropy(32), now)
        newest_at = ring.keys[0].created_at if ring.keys else now
        kept = [key for position, key in enumerate(ring.keys) if self._may_have_signed(ring, position, now)]
        payload = msgspec.msgpack.encode(SigningKeyRing((made, *kept)[:KEYS_MAX]))
        new = next_row(KEYS_TYPE, KEYS_KEY, row, payload, newest_at)
        return cas_row(self._store.backend, instance, row, new, self._store.clock, has_token=True)

    def _may_have_signed(self, ring: SigningKeyRing, position: int, now: int) -> bool:
        """Whether a token of it can still count: it signed until the key after it came."""
        stopped_at = now if position == 0 else ring.keys[position - 1].created_at
        return stopped_at + self._outlive_micros + int(LOOK_AGAIN_SECONDS * MICROS) > now

    def _is_young(self, ring: SigningKeyRing, now: int) -> bool:
        return bool(ring.keys) and now - ring.keys[0].created_at < self._rotate_micros

    def _read(self, instance: str) -> MutableRow | None:
        return self._store.backend.read_mutable(instance, KEYS_TYPE, KEYS_KEY)

    def _learn(self, instance: str, ring: SigningKeyRing) -> _Known:
        public = {key.id: Ed25519PrivateKey.from_private_bytes(key.private).public_key() for key in ring.keys}
        known = _Known(ring, self._monotonic(), public)
        with self._lock:
            if len(self._known) >= REALMS_KEPT_MAX:
                self._known.clear()
            self._known[instance] = known
        return known


def _is_plain(instance: str) -> bool:
    """⚠ Nothing is proven yet: a name that no realm can have must not reach a store, which has its own error for it."""
    return 0 < len(instance) <= NAME_BYTES_MAX and instance.isascii() and instance.isprintable()


def _ring(row: MutableRow | None) -> SigningKeyRing:
    return SigningKeyRing() if row is None else msgspec.msgpack.decode(row.payload, type=SigningKeyRing)
