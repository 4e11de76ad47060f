"""Which request ids go with an exported realm: those of entries that its cut holds, or has expired.

⚠ A request that was committed after the cut is not in the copy's log. Its row would be taken as proof that it is, as soon as
the copy has counted past its number and expired that history.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from headwater.persistence.log.committed_requests import CommittedRequest, read_request_row, request_row
from headwater.persistence.rows import ObjectRow, PointerRow
from headwater.schemas.entry_ids import object_id_of
from headwater.streaming.reachability.id_set import IdSet


def exported_request(
    row: ObjectRow, pointers: Mapping[str, PointerRow], kept: IdSet | None, *, rows_prove: bool
) -> ObjectRow | None:
    """None if the cut shows that it was not committed. `kept`: all objects that the cut reaches; None if that was not
    determined. `rows_prove`: whether this database writes rows and pointer in one transaction, so that a lost attempt has no
    row."""
    request = read_request_row(row)
    pointer = pointers.get(request.pointer)
    if pointer is None or request.seq > pointer.seq:
        return None
    if kept is not None and object_id_of(request.entry_id) in kept:
        return row
    if kept is not None and request.seq >= pointer.floor:
        return None
    return row if rows_prove or request.is_unproven else request_row(_unproven(request), row.created_at)


def _unproven(request: CommittedRequest) -> CommittedRequest:
    return msgspec.structs.replace(request, is_unproven=True)
