"""Lists the pointers of a realm in pages, each with its newest entry and the oldest that the feed still has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from headwater.persistence.log.log_entry import ENTRY
from headwater.persistence.store import RealmKernel
from headwater.producer.pointer_names import ReferenceType, parse_reference_pointer
from headwater.schemas.change import Kind
from headwater.schemas.entry_ids import object_id_of
from headwater.schemas.http.feed_json import PointerInfo, PointerKind, PointersPage


def list_pointers(
    kernel: RealmKernel, *, prefix: str, after: str, limit: int, may_see: Callable[[str], bool] = lambda _: True
) -> PointersPage:
    """Pointers with at least one entry, in order of name: three reads, however many there are, and more names where some may
    not be seen. ⚠ The token is the last name that was shown, never one that was passed over."""
    backend, realm = kernel.store.backend, kernel.realm
    seen = list(islice(_visible_names(kernel, prefix, after, limit, may_see), limit))
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
                entry_id=row.head.hex(),
            )
        )
    next_token = seen[-1] if len(seen) == limit else None
    return PointersPage(pointers=pointers, next_token=next_token, realm_instance=realm)


def _visible_names(kernel: RealmKernel, prefix: str, after: str, page: int, may_see: Callable[[str], bool]) -> Iterator[str]:
    return filter(may_see, kernel.store.backend.all_names(kernel.realm, prefix=prefix, after=after, page=page))


def pointer_kind(name: str) -> PointerKind:
    named = parse_reference_pointer(name)
    if named is None:
        return PointerKind.RECORDS
    return PointerKind.BRANCH if named.type is ReferenceType.BRANCH else PointerKind.TAG
