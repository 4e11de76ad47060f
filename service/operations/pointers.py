"""A realm enters; its pointers leave in pages, each with its newest entry and the oldest that the feed still has."""

from __future__ import annotations

from collections.abc import Callable

from headwater.persistence.log_entry import ENTRY
from headwater.persistence.store import RealmKernel
from headwater.producer.pointer_names import ReferenceType, parse_reference_pointer
from headwater.schemas.change import Kind
from headwater.schemas.entry_ids import object_id_of
from headwater.schemas.feed_json import PointerInfo, PointerKind, PointersPage


def list_pointers(
    kernel: RealmKernel, *, prefix: str, after: str, limit: int, may_see: Callable[[str], bool] = lambda _: True
) -> PointersPage:
    """Pointers with at least one entry, in order of name: three reads, however many there are. The token is the last name:
    it says only that there is more to look at, so a page may hold fewer pointers than asked for, down to none."""
    backend, realm = kernel.store.backend, kernel.realm
    names = backend.list_names(realm, prefix=prefix, after=after, limit=limit)
    seen = [name for name in names if may_see(name)]
    rows = {name: row for name, row in backend.read_pointers(realm, seen).items() if row.head}
    entries = kernel.objects.fetch_many(ENTRY, [object_id_of(row.head) for row in rows.values()])
    pointers = []
    for name in seen:
        row = rows.get(name)
        if row is None:
            continue
        entry = entries[object_id_of(row.head)]
        pointers.append(
            PointerInfo(
                name=name,
                kind=pointer_kind(name),
                seq=row.seq,
                commit_id=(entry.commit or row.head).hex(),
                oldest_seq=row.floor,
                deleted=entry.kind is Kind.DELETE,
            )
        )
    return PointersPage(pointers=pointers, next_token=names[-1] if len(names) == limit else None)


def pointer_kind(name: str) -> PointerKind:
    named = parse_reference_pointer(name)
    if named is None:
        return PointerKind.RECORDS
    return PointerKind.BRANCH if named.type is ReferenceType.BRANCH else PointerKind.TAG
