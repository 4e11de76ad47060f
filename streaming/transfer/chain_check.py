"""Recomputes the hash chain of each pointer of a realm, as an auditor does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headwater.consumers.audit.verify import verify
from headwater.persistence.backend import Backend
from headwater.persistence.log.log_entry import change_of
from headwater.persistence.rows import PointerRow
from headwater.schemas.change import Change
from headwater.schemas.errors import ChainBroken
from headwater.streaming.reachability.retained_identifiers import Span, WalkedRealm

ENTRIES_PER_PAGE = 200


def spans_of(rows: Mapping[str, PointerRow]) -> dict[str, Span]:
    return {name: Span(floor=row.floor, head=row.head, seq=row.seq) for name, row in rows.items() if row.head}


def check_chains(backend: Backend, realm: str, rows: Mapping[str, PointerRow]) -> int:
    """How many entries were checked; `ChainBroken` names the first that is not what it must be."""
    walked = WalkedRealm(backend, realm, spans_of(rows))
    entries = 0
    for name, row in rows.items():
        if row.head:
            anchor = None if row.anchor is None else row.anchor.entry_id.hex()
            found = verify(name, _changes(walked, row), after_seq=row.floor - 1, anchor=anchor)
            if found.flaw is not None:
                raise ChainBroken(f"{name}: entry {found.flaw.seq} {found.flaw.reason}.")
            if found.last_entry_id != row.head.hex() or found.last_seq != row.seq:
                raise ChainBroken(f"{name}: the chain ends in {found.last_entry_id}, its pointer names {row.head.hex()}.")
            entries += found.entries
    return entries


def _changes(walked: WalkedRealm, row: PointerRow) -> Iterator[Change]:
    newest = walked.walk.load(row.head)
    for first in range(row.floor, row.seq + 1, ENTRIES_PER_PAGE):
        for logged in walked.walk.between(newest, first, min(first + ENTRIES_PER_PAGE - 1, row.seq)):
            yield change_of(logged, walked.realm)
