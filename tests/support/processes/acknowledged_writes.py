"""Commits to an open store in a stream, and compares what was acknowledged with what is found later.

Each writer owns one pointer and moves it from version to version, with two objects at every step, so that what must be there
follows from the highest version that it was told had been committed. Runs in threads, or as a process to be killed:
`python -m tests.support.processes.acknowledged_writes URL REALM WRITERS` prints "writer version" for each acknowledged commit.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable

from headwater.persistence.backend import Backend
from headwater.persistence.backends import open_backend
from headwater.persistence.rows import ObjectRow, PointerRow
from headwater.schemas.errors import HeadwaterError

CREATED_AT = 1_700_000_000_000_000


def pointer_at(writer: int, version: int) -> PointerRow:
    return PointerRow(head=b"%16d%16d" % (writer, version), seq=version - 1, version=version, created_at=CREATED_AT)


def objects_at(writer: int, version: int) -> list[ObjectRow]:
    first = (writer + 1) << 40 | version << 4
    return [ObjectRow(first + n, "note", CREATED_AT, b"%d.%d.%d" % (writer, version, n) * 50) for n in range(2)]


def prepare(backend: Backend, realm: str, writers: int) -> None:
    for writer in range(writers):
        backend.add_name(realm, f"w{writer}")
        assert backend.reserve_pointer(realm, f"w{writer}", pointer_at(writer, 1))


def write_until_it_fails(backend: Backend, realm: str, writer: int, acknowledge: Callable[[int, int], None]) -> HeadwaterError:
    """Begins at the version that is there; the error that ended it."""
    try:
        found = backend.read_pointer(realm, f"w{writer}")
        assert found is not None
        version = found.version
        while True:
            version += 1
            before, row = pointer_at(writer, version - 1), pointer_at(writer, version)
            done = backend.commit(realm, f"w{writer}", before, row, objects_at(writer, version))
            assert done, "the only writer of a pointer lost a race"
            acknowledge(writer, version)
    except HeadwaterError as error:
        return error


def assert_all_there(backend: Backend, realm: str, acknowledged: dict[int, int]) -> None:
    """Each pointer at the acknowledged version or the one after it, which was under way; all objects of both, and no more."""
    for writer, version in acknowledged.items():
        found = backend.read_pointer(realm, f"w{writer}", decide=True)
        assert found is not None
        assert found.version in (version, version + 1), f"writer {writer}: acknowledged {version}, found {found.version}"
        assert found == pointer_at(writer, found.version)
        expected = [row for step in range(2, found.version + 1) for row in objects_at(writer, step)]
        rows = backend.fetch_objects(realm, [row.id for row in expected])
        assert [rows.get(row.id) for row in expected] == [[row] for row in expected]
        assert backend.fetch_objects(realm, [row.id for row in objects_at(writer, found.version + 1)]) == {}


def main(url: str, realm: str, writers: int) -> None:
    backend = open_backend(url)

    def acknowledge(writer: int, version: int) -> None:
        os.write(1, b"%d %d\n" % (writer, version))

    threads = [
        threading.Thread(target=write_until_it_fails, args=(backend, realm, writer, acknowledge)) for writer in range(writers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
