"""Checks that every object that must stay in a realm instance is there, and where walk and stream differ.

Nothing is changed. The walk starts at the current heads; the scan comes after it: whatever the walk has seen must be there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.clock import Clock
from headwater.persistence.objects.object_types import all_object_types, owner_id
from headwater.persistence.rows import Table
from headwater.schemas.errors import ObjectNotFound, RetainedIncomplete
from headwater.streaming.reachability.fence import FencedRealm
from headwater.streaming.reachability.id_set import IdSet
from headwater.streaming.reachability.retained_identifiers import Identifiers, Span
from headwater.streaming.reachability.same_history import require_every_position, require_same_history, walk_of
from headwater.streaming.retained.retained_sources import RetainedSource, WalkedSource, require_complete

SAMPLE_IDS = 20
SPLITS = 8


class VerifyReport(msgspec.Struct, frozen=True, kw_only=True):
    realm: str
    pointers: int
    walked: int
    """Objects that must stay, by walking."""
    scanned: int
    """Rows that are there."""
    missing: list[int] = []
    """Objects that must stay and are missing; the first twenty."""
    missing_count: int = 0
    unreached: int = 0
    """Rows that nothing reaches: the next sweeps delete them when they are old enough."""
    streamed: int | None = None
    """Objects that must stay according to the streamed set; None if it was not compared."""
    only_walked: list[int] = []
    only_streamed: list[int] = []
    failure: str = ""

    @property
    def holds(self) -> bool:
        return not (self.missing_count or self.only_walked or self.only_streamed or self.failure)


def verify_realm(
    backend: Backend, realm: str, clock: Clock, identifiers: Identifiers, streamed: RetainedSource | None = None
) -> VerifyReport:
    now = current(backend, realm, clock)
    try:
        walked = WalkedSource(backend, identifiers).retained(now)
    except ObjectNotFound as gone:
        ids = [int(str(id)) for id in _listed(gone.facts.get("object_ids"))]
        return VerifyReport(
            realm=realm,
            pointers=len(now.spans),
            walked=0,
            scanned=0,
            missing=ids[:SAMPLE_IDS],
            missing_count=len(ids),
            failure=str(gone),
        )
    marked = walked.ids.local()
    scanned, unreached, missing, missing_count = _scan(backend, realm, marked)
    report = VerifyReport(
        realm=realm,
        pointers=len(now.spans),
        walked=len(marked),
        scanned=scanned,
        missing=missing,
        missing_count=missing_count,
        unreached=unreached,
    )
    return report if streamed is None else _compared(backend, report, now, marked, streamed)


def current(backend: Backend, realm: str, clock: Clock) -> FencedRealm:
    """Current floors and heads; no fence, because nothing is deleted."""
    rows = backend.all_pointers(realm)
    spans = {name: Span(floor=row.floor, head=row.head, seq=row.seq) for name, row in rows if row.head}
    return FencedRealm(realm=realm, time=clock.now_micros(), spans=spans)


def _compared(backend: Backend, report: VerifyReport, now: FencedRealm, walked: IdSet, source: RetainedSource) -> VerifyReport:
    try:
        found = source.retained(now)
        require_complete(now.spans, found.positions)
        walk = walk_of(backend, now.realm)
        require_same_history(walk, now.spans, found.positions)
        require_every_position(walk, now.spans, found.passed)
    except RetainedIncomplete as behind:
        return msgspec.structs.replace(report, streamed=0, failure=str(behind))
    streamed = found.ids.local()
    found.ids.release()
    return msgspec.structs.replace(
        report,
        streamed=len(streamed),
        only_walked=_first(id for id in walked if id not in streamed),
        only_streamed=_first(id for id in streamed if id not in walked),
    )


def _scan(backend: Backend, realm: str, retained: IdSet) -> tuple[int, int, list[int], int]:
    """Rows, rows that nothing reaches, the first retained ids without a row, and how many of these there are. Seen ids are one
    bit each: a set of millions of numbers would be the largest structure here."""
    scanned = unreached = 0
    timed, attached = all_object_types().timed(), all_object_types().attached()
    seen = bytearray(len(retained) // 8 + 1)
    for split in backend.splits(Table.OBJECTS, SPLITS):
        for row in backend.scan(split, realm=realm):
            scanned += 1
            at = retained.position(owner_id(row.id))
            if at is None:
                unreached += row.type not in timed
            elif row.type not in attached:  # which do not prove that their owners are there
                seen[at >> 3] |= 1 << (at & 7)
    missing_count = len(retained) - sum(byte.bit_count() for byte in seen)
    missing = (id for at, id in enumerate(retained) if not seen[at >> 3] >> (at & 7) & 1)
    return scanned, unreached, _first(missing) if missing_count else [], missing_count


def _first(ids: Iterable[int]) -> list[int]:
    found = []
    for object_id in ids:
        found.append(object_id)
        if len(found) == SAMPLE_IDS:
            break
    return found


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else []
