"""Makes a publisher for a store, and names the extra if the Kafka packages are missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headwater.persistence.store import Store
from headwater.producer.publisher.options import PublisherOptions
from headwater.schemas.extras import needs_extra

if TYPE_CHECKING:
    from headwater.producer.publisher.publisher import Publisher
    from headwater.producer.publisher.shards.fault_points import At


def make_publisher(store: Store, options: PublisherOptions, *, realms: Sequence[str] = (), at: At | None = None) -> Publisher:
    """Not started: `run()` on this thread, `start()` on one of its own, or `publish_once()`."""
    with needs_extra("publishing", "kafka"):
        from headwater.producer.publisher.publisher import Publisher
        from headwater.producer.publisher.shards.fault_points import no_fault
    return Publisher(store, options, realms=realms, at=at or no_fault)


def start_publisher(store: Store, options: PublisherOptions, *, realms: Sequence[str] = ()) -> Publisher:
    """In the background of this process, until its `close()`, which comes before the store's. `status()` shows its progress."""
    publisher = make_publisher(store, options, realms=realms)
    publisher.start()
    return publisher
