"""Announces removals of files to commits: of a commit and a removal that overlap, at least one sees the other.

⚠ The order is the protocol. A removal writes an intent in the phase DELETING, then fences every realm, then reads
the heads, and deletes only after that. A commit reads the intents after it has read the fence of its pointer's row. If
the row has the new fence, the intent is there to be seen. If it has an older one, either its commit lands before the row is
fenced and is among the heads, or its compare-and-swap fails.
⚠ So each fence is greater than every earlier one of its realm: "no intent at this fence" is remembered by the fence's value.

All intents lie in one row, so that one strong read shows all of them on every database.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.clock import MICROS, Clock
from headwater.persistence.coordination.cas_rows import change_row
from headwater.persistence.objects.object_types import OBJECT_TYPES, Life, ObjectType
from headwater.persistence.rows import SYSTEM_REALM, MutableRow
from headwater.schemas.errors import MaintenanceRefused, MaintenanceSuperseded, OutcomeUnknown

INTENT_TYPE = "removal-intent"
INTENT_SECONDS = 3_600
"""How long an intent lasts after it was last renewed: far longer than any single deletion."""
SKEW_SECONDS = 25 * 3_600
"""⚠ Commits respect an intent this much longer: their clock may be a day ahead, or the remover's a day behind."""
INTENTS_MAX = 500
_KEY = "store"


class RemovalPhase(enum.StrEnum):
    MARKING = "MARKING"
    """What is in use is being collected. Commits need not care."""
    DELETING = "DELETING"


class RemovalIntent(msgspec.Struct, frozen=True, array_like=True):
    """An intent for one storage root or one table. Append new fields, never move one."""

    id: str
    holder: str
    """The run that wrote it."""
    root: str
    """Files below it may be deleted. Ends with a slash."""
    realm: str
    """The realm instance …"""
    catalog_id: int
    """… and its catalog, whose commits are near."""
    phase: RemovalPhase = RemovalPhase.MARKING
    until: int = 0
    """Microseconds."""
    condemned_at: str = ""
    """The location of the fingerprints of all files that may go …"""
    condemned_digest: str = ""
    """… their digest …"""
    salt: bytes = b""
    """… and what they were made with."""
    is_done: bool = False
    """All requests have been answered: it lasts until its end by anybody's clock, for what the network may still hold."""


class _Intents(msgspec.Struct, frozen=True, array_like=True):
    """The row's payload."""

    intents: tuple[RemovalIntent, ...] = ()


OBJECT_TYPES.register(ObjectType(INTENT_TYPE, _Intents, Life.MUTABLE))


class CondemnedFiles(Protocol):
    """Access to file storage, which persistence has none of."""

    def first_condemned(
        self, intents: Sequence[RemovalIntent], type: str, after: Mapping[str, Any], before: Mapping[str, Any] | None
    ) -> str | None:
        """The location of a file that is to go and that a content of this type needs; None if there is none. `before` is what
        the branch holds at the key: its files are in use. Raises if the content's files are not known."""


def read_intents(backend: Backend) -> tuple[RemovalIntent, ...]:
    return _intents_of(backend.read_mutable(SYSTEM_REALM, INTENT_TYPE, _KEY))


class RemovalIntents:
    """Writes the intents of one holder."""

    def __init__(self, backend: Backend, clock: Clock, holder: str) -> None:
        self._backend = backend
        self._clock = clock
        self._holder = holder

    def put(self, intent: RemovalIntent) -> RemovalIntent:
        """Write or renew it; leaves it with its new end. ⚠ An end never comes nearer, even if the clock has gone back."""
        until = max(intent.until, self._clock.now_micros() + INTENT_SECONDS * MICROS)
        kept = msgspec.structs.replace(intent, holder=self._holder, until=until)
        self._change(lambda others: (*(one for one in others if one.id != kept.id), kept))
        return kept

    def done(self, intent: RemovalIntent) -> None:
        """Nothing more will be deleted under it."""
        self.put(msgspec.structs.replace(intent, is_done=True))

    def end_others(self) -> None:
        """⚠ Only under the lease of all removals: the writers of the other intents have lost it, and delete nothing more."""
        until = self._clock.now_micros() + INTENT_SECONDS * MICROS

        def ended(one: RemovalIntent) -> RemovalIntent:
            is_ours = one.holder == self._holder or one.is_done
            return one if is_ours else msgspec.structs.replace(one, is_done=True, until=until)

        if any(one.holder != self._holder and not one.is_done for one in read_intents(self._backend)):
            self._change(lambda others: tuple(ended(one) for one in others))

    def require(self, intent: RemovalIntent, seconds: float) -> None:
        """⚠ Before each batch: the intent stands in the store as it was written, and will for so long."""
        there = next((one for one in read_intents(self._backend) if one.id == intent.id), None)
        if there is None or there.holder != self._holder or there.phase is not intent.phase:
            raise MaintenanceSuperseded(
                f"the removal intent of {intent.root} is gone.", field="root", remedy="Nothing more is deleted. Run it again."
            )
        if there.until - self._clock.now_micros() < seconds * MICROS:
            raise MaintenanceSuperseded(
                f"the removal intent of {intent.root} has ended.", field="root", remedy="Nothing more is deleted. Run it again."
            )

    def remove(self, ids: Sequence[str]) -> None:
        self._change(lambda others: tuple(one for one in others if one.id not in ids))

    def _change(self, change: Callable[[tuple[RemovalIntent, ...]], tuple[RemovalIntent, ...]]) -> None:
        def payload(row: MutableRow | None) -> bytes:
            now = self._clock.now_micros()
            changed = change(tuple(one for one in _intents_of(row) if not _is_over(one, now)))
            if len(changed) > INTENTS_MAX:
                raise MaintenanceRefused(
                    f"files would be removed below {len(changed)} roots at once.",
                    field="root",
                    remedy=f"Name at most {INTENTS_MAX} with --root.",
                )
            return msgspec.msgpack.encode(_Intents(changed))

        if not change_row(self._backend, SYSTEM_REALM, INTENT_TYPE, _KEY, payload, self._clock):
            raise OutcomeUnknown("the removal intent could not be written: others kept writing.", remedy="Try again.")


class IntentWatch:
    """Which removals a commit must respect. One per open store. Thread-safe."""

    def __init__(self, backend: Backend, clock: Clock) -> None:
        self._backend = backend
        self._clock = clock
        self._quiet: dict[str, int] = {}
        """Realm → the fence at which there was no intent. ⚠ Valid for rows with that fence alone."""

    def deleting(self, realm: str, fence: int | None) -> tuple[RemovalIntent, ...]:
        """For a commit on a row with this fence, read before the call; None for a row without a head, whose fence proves
        nothing: intents are read each time. Costs a comparison while there is no intent."""
        if fence is not None and self._quiet.get(realm) == fence:
            return ()
        now = self._clock.now_micros()
        found = tuple(
            one for one in read_intents(self._backend) if one.phase is RemovalPhase.DELETING and not _is_over(one, now)
        )
        if not found and fence is not None:
            self._quiet[realm] = fence
        return found

    def forget(self) -> None:
        """After a restore of the store, fences may come again."""
        self._quiet.clear()


def _intents_of(row: MutableRow | None) -> tuple[RemovalIntent, ...]:
    return () if row is None else msgspec.msgpack.decode(row.payload, type=_Intents).intents


def _is_over(intent: RemovalIntent, now: int) -> bool:
    skew_seconds = 0 if intent.is_done else SKEW_SECONDS
    return intent.until + skew_seconds * MICROS < now
