"""The backend for Cassandra. Mutable rows take a lightweight transaction for every write, immutable rows never.

Read url, cluster, schema, durability (opening a keyspace); calls, cassandra_errors (sending one request); then one module for
each kind of row: pointers, names, objects, mutable_rows, with move_journal, write_stamps and scans; then cassandra_backend
(the SPI).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.schemas.extras import needs_extra

if TYPE_CHECKING:
    from headwater.persistence.backends.cassandra.cassandra_backend import CassandraBackend


def open_cassandra(url: str) -> CassandraBackend:
    """Connect; the schema is neither created nor checked here."""
    with needs_extra("a Cassandra store", "cassandra"):
        import cassandra.cluster  # noqa: F401  the driver is an extra: the embedded default needs none of it
    from headwater.persistence.backends.cassandra.cassandra_backend import CassandraBackend

    return CassandraBackend.open(url)
