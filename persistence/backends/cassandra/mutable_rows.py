"""Mutable rows by LWT, each in its own partition; names are kept apart, so that a type can be listed.

A name is written before its row, so the names may list what is not there, never the reverse. Nobody removes a name with its
row: the row may be on its way back. A listing removes names that have no row, but only those written longer ago than any
insert takes, at their own writetime (an insert writes its name again and so spares it), and only after a serial read has
finished or shut out an insert that hangs half accepted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headwater.persistence.backends.cassandra.calls import Calls, Row
from headwater.persistence.backends.cassandra.names import bucket_of, merged
from headwater.persistence.backends.cassandra.write_stamps import new_stamp
from headwater.persistence.rows import MutableRow

NAME_GRACE_MICROS = 600_000_000
"""Above the longest insert (some 40 s with all retries) and the largest difference between clients' clocks."""
LIST_PAGE = 1_000

_ADD_NAME = "INSERT INTO {ks}.mutable_row_names (realm, type, bucket, key, created_at) VALUES (?, ?, ?, ?, ?)"
_LIST_NAMES = """SELECT key, WRITETIME(created_at) FROM {ks}.mutable_row_names
                 WHERE realm = ? AND type = ? AND bucket = ? AND key > ?"""
_READ_NAME = "SELECT WRITETIME(created_at) FROM {ks}.mutable_row_names WHERE realm = ? AND type = ? AND bucket = ? AND key = ?"
_REMOVE_NAME = "DELETE FROM {ks}.mutable_row_names USING TIMESTAMP ? WHERE realm = ? AND type = ? AND bucket = ? AND key = ?"

_READ = "SELECT version, created_at, expires_at, payload FROM {ks}.mutable_rows WHERE realm = ? AND type = ? AND key = ?"
_INSERT = """INSERT INTO {ks}.mutable_rows (realm, type, key, version, created_at, expires_at, payload, stamp)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?) IF NOT EXISTS"""
_UPDATE = """UPDATE {ks}.mutable_rows SET version = ?, created_at = ?, expires_at = ?, payload = ?, stamp = ?
             WHERE realm = ? AND type = ? AND key = ? IF version = ? AND payload = ?"""
_DELETE = "DELETE FROM {ks}.mutable_rows WHERE realm = ? AND type = ? AND key = ? IF version = ? AND payload = ?"


class Name(NamedTuple):
    key: str
    written_at: int


def insert_mutable(calls: Calls, realm: str, row: MutableRow) -> bool:
    named_at = _add_name(calls, realm, row)
    values = (realm, row.type, row.key, row.version, row.created_at, row.expires_at, row.payload, new_stamp())
    applied = calls.lwt(_INSERT, values)
    if applied and calls.clock.now_micros() - named_at > NAME_GRACE_MICROS // 2:
        # This process stood still for minutes: a lister may have taken the name for a stale one in the meantime.
        _add_name(calls, realm, row)
    return applied


def read_mutable(calls: Calls, realm: str, type: str, key: str) -> MutableRow | None:
    found = calls.first_row(calls.read(_READ, (realm, type, key), serially=True))
    return None if found is None else _from_columns(type, key, found)


def update_mutable(calls: Calls, realm: str, expected: MutableRow, row: MutableRow) -> bool:
    values = (row.version, row.created_at, row.expires_at, row.payload, new_stamp())
    return calls.lwt(_UPDATE, (*values, realm, row.type, row.key, expected.version, expected.payload))


def delete_mutable(calls: Calls, realm: str, expected: MutableRow) -> bool:
    return calls.lwt(_DELETE, (realm, expected.type, expected.key, expected.version, expected.payload))


def list_mutable(calls: Calls, realm: str, type: str, *, after: str, limit: int) -> list[MutableRow]:
    found: list[MutableRow] = []
    while len(found) < limit:
        wanted = min(limit - len(found), LIST_PAGE)
        names = _list_names(calls, realm, type, after, wanted)
        rows = _read_many(calls, realm, type, [name.key for name in names])
        found += [rows[name.key] for name in names if name.key in rows]
        remove_stale_names(calls, realm, type, [name for name in names if name.key not in rows])
        if len(names) < wanted:
            break
        after = names[-1].key
    return found


def remove_names_of_deleted(calls: Calls, realm: str, type: str, keys: Sequence[str]) -> None:
    """After a purge the realm is not listed any more, so its names are deleted with its rows, if they are old enough."""
    pages = calls.run_all([calls.read(_READ_NAME, (realm, type, bucket_of(key), key)) for key in keys])
    names = [Name(key, page.rows[0][0]) for key, page in zip(keys, pages, strict=True) if page.rows]
    remove_stale_names(calls, realm, type, names)


def remove_stale_names(calls: Calls, realm: str, type: str, names: Sequence[Name]) -> None:
    """Of names whose rows seem to be gone, those that are old and whose rows are certainly gone."""
    old = [name for name in names if name.written_at < calls.clock.now_micros() - NAME_GRACE_MICROS]
    alive = _read_many(calls, realm, type, [name.key for name in old], serially=True)
    gone = [name for name in old if name.key not in alive]
    calls.run_all([calls.write(_REMOVE_NAME, (name.written_at, realm, type, bucket_of(name.key), name.key)) for name in gone])


def _add_name(calls: Calls, realm: str, row: MutableRow) -> int:
    now = calls.clock.now_micros()
    calls.run(calls.write(_ADD_NAME, (realm, row.type, bucket_of(row.key), row.key, now)))
    return now


def _list_names(calls: Calls, realm: str, type: str, after: str, limit: int) -> list[Name]:
    return [Name(*row) for row in merged(calls, _LIST_NAMES, lambda bucket: (realm, type, bucket, after), limit)]


def _read_many(calls: Calls, realm: str, type: str, keys: Sequence[str], *, serially: bool = False) -> dict[str, MutableRow]:
    """At QUORUM by default: an LWT that was acknowledged is committed there; one that was not may be missed."""
    pages = calls.run_all([calls.read(_READ, (realm, type, key), serially=serially) for key in keys])
    return {key: _from_columns(type, key, page.rows[0]) for key, page in zip(keys, pages, strict=True) if page.rows}


def _from_columns(type: str, key: str, columns: Row) -> MutableRow:
    version, created_at, expires_at, payload = columns
    return MutableRow(type=type, key=key, version=version, created_at=created_at, expires_at=expires_at, payload=payload)
