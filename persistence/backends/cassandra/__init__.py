"""A `cassandra://` URL enters; a backend over Cassandra leaves. Mutable rows take LWT for every write, immutable rows never.

url.py (what was asked) → cluster.py (sessions, consistency) → calls.py (sent, retried, fanned out; cassandra_errors.py names
what went wrong) → pointers.py, move_journal.py, names.py, objects.py, mutable_rows.py, scans.py (one kind of row each) →
cassandra_backend.py (the SPI).
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
