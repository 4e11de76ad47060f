"""Pointer rows by Paxos: one per partition, every write an LWT, every read at the serial level.

What `decide` asks for, a serial read gives. It is linearizable with every LWT of the row: what was applied before it is in
what it returns, and a proposal that hangs half accepted is either finished by it or shut out by its newer ballot. When it
returns version w, an LWT that asks for a version below w can never be applied again, however long its request has waited
in a socket or a paused coordinator: it evaluates its condition under a newer ballot, sees w or more, and versions only grow.

It does *not* rule out an LWT that asks for w itself and has not begun: its coordinator may still begin, see w, and apply.
No read can rule that out. Only moving the row past w can, which is what the caller does by sending the identical CAS again:
either of the two is applied, never both, since the first moves the version.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from headwater.persistence.backends.cassandra.calls import Calls, Row
from headwater.persistence.backends.cassandra.write_stamps import new_stamp
from headwater.persistence.rows import Anchor, PointerRow

_COLUMNS = "head, seq, floor, fence, version, anchor, created_at"
_RESERVE = f"INSERT INTO {{ks}}.pointers (realm, name, {_COLUMNS}, stamp) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) IF NOT EXISTS"  # noqa: S608
_READ = f"SELECT {_COLUMNS} FROM {{ks}}.pointers WHERE realm = ? AND name = ?"  # noqa: S608
_CAS = """UPDATE {ks}.pointers SET head = ?, seq = ?, floor = ?, fence = ?, version = ?, anchor = ?, created_at = ?, stamp = ?
          WHERE realm = ? AND name = ? IF version = ? AND head = ?"""
_DELETE = "DELETE FROM {ks}.pointers WHERE realm = ? AND name = ? IF version = ? AND head = ?"

_ANCHOR_TIME = struct.Struct(">q")


def reserve_pointer(calls: Calls, realm: str, name: str, row: PointerRow) -> bool:
    return calls.lwt(_RESERVE, (realm, name, *_to_columns(row), new_stamp()))


def read_pointer(calls: Calls, realm: str, name: str) -> PointerRow | None:
    found = calls.first_row(calls.read(_READ, (realm, name), serially=True))
    return None if found is None else _from_columns(found)


def read_pointers(calls: Calls, realm: str, names: Sequence[str]) -> dict[str, PointerRow]:
    wanted = list(dict.fromkeys(names))
    pages = calls.run_all([calls.read(_READ, (realm, name), serially=True) for name in wanted])
    return {name: _from_columns(page.rows[0]) for name, page in zip(wanted, pages, strict=True) if page.rows}


def cas_pointer(calls: Calls, realm: str, name: str, expected: PointerRow, row: PointerRow) -> bool:
    return calls.lwt(_CAS, (*_to_columns(row), new_stamp(), realm, name, expected.version, expected.head))


def delete_pointer(calls: Calls, realm: str, name: str, expected: PointerRow) -> bool:
    return calls.lwt(_DELETE, (realm, name, expected.version, expected.head))


def _to_columns(row: PointerRow) -> Row:
    # No anchor is an empty blob: a null would leave a tombstone behind with every move of the head.
    anchor = b"" if row.anchor is None else _ANCHOR_TIME.pack(row.anchor.time_micros) + row.anchor.entry_id
    return row.head, row.seq, row.floor, row.fence, row.version, anchor, row.created_at


def _from_columns(columns: Row) -> PointerRow:
    head, seq, floor, fence, version, anchor, created_at = columns
    return PointerRow(
        head=head,
        seq=seq,
        floor=floor,
        fence=fence,
        version=version,
        anchor=Anchor(anchor[_ANCHOR_TIME.size :], *_ANCHOR_TIME.unpack_from(anchor)) if anchor else None,
        created_at=created_at,
    )
