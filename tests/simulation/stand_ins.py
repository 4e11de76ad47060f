"""Everything that the simulation puts in the place of the real thing, installed once for a process."""

from __future__ import annotations

import aiokafka
import aiokafka.admin
import confluent_kafka
import confluent_kafka.admin

from tests.simulation import profiles
from tests.simulation.runtime import virtual
from tests.simulation.world import aio_kafka, confluent

CLASSES: dict[type, type] = {
    confluent_kafka.Producer: confluent.Producer,
    confluent_kafka.Consumer: confluent.Consumer,
    confluent_kafka.admin.AdminClient: confluent.AdminClient,
    aiokafka.AIOKafkaConsumer: aio_kafka.AIOKafkaConsumer,
    aiokafka.admin.AIOKafkaAdminClient: aio_kafka.AIOKafkaAdminClient,
}


def install() -> None:
    """Behind the import of all workers: what they use is loaded by now."""
    assert profiles.PROFILES
    virtual.install(CLASSES)
