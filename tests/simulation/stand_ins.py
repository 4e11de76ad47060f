"""Everything that the simulation puts in the place of the real thing, installed once for a process."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import aiokafka
import aiokafka.admin
import confluent_kafka
import confluent_kafka.admin

from headwater.consumers.clients.cursor_file import CursorFile
from headwater.consumers.webhooks.webhook_delivery import WebhookSender
from headwater.streaming.spark.hadoop_files import HadoopFiles
from tests.simulation import profiles
from tests.simulation.runtime import virtual
from tests.simulation.workers import archivers
from tests.simulation.world import aio_kafka, confluent, retained_spark, spark

CLASSES: dict[type, type] = {
    confluent_kafka.Producer: confluent.Producer,
    confluent_kafka.Consumer: confluent.Consumer,
    confluent_kafka.admin.AdminClient: confluent.AdminClient,
    aiokafka.AIOKafkaConsumer: aio_kafka.AIOKafkaConsumer,
    aiokafka.admin.AIOKafkaAdminClient: aio_kafka.AIOKafkaAdminClient,
    HadoopFiles: spark.SimulatedFiles,
}
DISK = ((CursorFile, "write"), (WebhookSender, "_bury"))


def install() -> None:
    """Behind the import of all workers: what they use is loaded by now."""
    assert profiles.PROFILES
    virtual.install(CLASSES)
    archivers.install()
    retained_spark.install(lambda what: virtual.scheduler().step(what))
    for owner, name in DISK:
        setattr(owner, name, _stepping(getattr(owner, name)))


def _stepping(write: Callable[..., Any]) -> Callable[..., Any]:
    """A write of a file: the process may end before it and behind it."""

    @functools.wraps(write)
    def stepping(*args: Any, **kwargs: Any) -> Any:
        virtual.scheduler().step(f"file {write.__qualname__}")
        answer = write(*args, **kwargs)
        virtual.scheduler().step()
        return answer

    return stepping
