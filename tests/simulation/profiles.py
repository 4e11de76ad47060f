"""The kinds of runs: which workers share a store, and what happens to them."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation import defects
from tests.simulation.checks.pin_checks import check_published
from tests.simulation.plan import Profile
from tests.simulation.workers.archivers import Archiver
from tests.simulation.workers.kafka_readers import KafkaWorker
from tests.simulation.workers.keepers import Keeper
from tests.simulation.workers.maintainers import Maintainer, check_floor
from tests.simulation.workers.poll_readers import PollReader
from tests.simulation.workers.publishers import Operator, PublisherWorker
from tests.simulation.workers.purgers import Purger
from tests.simulation.workers.releasers import Releaser
from tests.simulation.workers.retainers import Retainer
from tests.simulation.workers.webhooks import WebhookWorker
from tests.simulation.workers.writers import Writer
from tests.simulation.world.environment import GUEST, Environment, Worker
from tests.simulation.world.store_faults import Rates

MAIN = "cat/1/heads/main"
DEV = "cat/1/heads/dev"

PROFILES: dict[str, Profile] = {
    "commits": Profile(
        workers=("writer-1", "writer-2", "poll-1", "follow-1"),
        events={"kill": 3, "pause": 3, "clock": 1, "skip": 0.5},
    ),
    "restores": Profile(
        workers=("writer-1", "writer-2", "poll-1", "follow-1"),
        events={"kill": 1, "pause": 2, "backup": 1, "restore": 0.5},
        script=((0.2, "backup"), (0.35, "restore"), (0.55, "backup"), (0.75, "restore")),
    ),
    "kafka": Profile(
        workers=("writer-1", "publisher-1", "publisher-2", "group-1", "group-2", "newcomer-1", "operator-1"),
        events={"kill": 4, "pause": 3, "kafka-down": 1},
        steps=5_000,
    ),
    "webhooks": Profile(workers=("writer-1", "webhook-1"), events={"kill": 4, "pause": 1, "receiver-down": 3}, steps=1_500),
    "webhook-restores": Profile(
        workers=("writer-1", "webhook-1"),
        events={"kill": 3, "pause": 1, "receiver-down": 2, "backup": 1, "restore": 0.7},
        script=((0.3, "backup"), (0.6, "restore")),
        steps=2_000,
    ),
    "archives": Profile(
        workers=("writer-1", "archiver-1", "archiver-2", "maintainer-1"),
        events={"kill": 2, "pause": 6, "skip": 2},
        steps=4_000,
    ),
    "archive-restores": Profile(
        workers=("writer-1", "archiver-1", "archiver-2", "maintainer-1"),
        events={"kill": 2, "pause": 4, "skip": 1, "backup": 1, "restore": 0.7},
        script=((0.3, "backup"), (0.55, "restore")),
        steps=4_000,
    ),
    "pins": Profile(
        workers=("writer-1", "publisher-1", "maintainer-1", "newcomer-1"),
        events={"kill": 1, "pause": 1, "kafka-down": 2, "skip": 1},
        steps=4_000,
    ),
    "topics": Profile(
        workers=("writer-1", "publisher-1", "publisher-2", "group-1", "group-2", "newcomer-1", "operator-1"),
        events={"kill": 1, "pause": 2, "topic-again": 1, "topic-deleted": 0.3, "partitions": 0.6, "retention": 0.6},
        steps=5_000,
        needs=("n8",),
    ),
    "kafka-restores": Profile(
        workers=("writer-1", "writer-2", "publisher-1", "publisher-2", "group-1", "group-2", "newcomer-1", "operator-1"),
        events={"kill": 1, "pause": 2, "backup": 3, "restore": 1.2},
        steps=5_000,
    ),
    "members": Profile(
        workers=("writer-1", "publisher-1", "publisher-2", "group-1", "group-2", "group-3", "operator-1"),
        events={"kill": 1, "pause": 2, "backup": 2, "restore": 1, "partitions": 0.6, "topic-again": 0.5, "retention": 0.3},
        steps=5_000,
    ),
    "kafka-mixed": Profile(
        workers=("writer-1", "publisher-1", "publisher-2", "keeper-1", "maintainer-1", "operator-1", "group-1", "newcomer-1"),
        events={"kill": 1, "pause": 2, "skip": 1, "topic-again": 0.3, "retention": 0.3},
        script=((0.35, "backup"), (0.6, "restore"), (0.65, "partitions")),
        steps=5_000,
    ),
    "retained": Profile(
        workers=("writer-1", "publisher-1", "operator-1", "retainer-1", "retainer-2"),
        events={"kill": 2, "pause": 1, "backup": 2, "restore": 1.2, "skip": 4, "topic-again": 0.3, "retention": 0.3},
        steps=5_000,
    ),
    "retained-kafka": Profile(
        workers=("writer-1", "publisher-1", "operator-1", "kafka-retainer-1"),
        events={"skip": 4},
        script=((0.25, "backup"), (0.5, "restore"), (0.8, "skip"), (0.9, "skip")),
        steps=3_000,
    ),
    "purges": Profile(
        workers=(
            "writer-1",
            "purger-1",
            "purger-2",
            "publisher-1",
            "publisher-2",
            "guest-group-1",
            "guest-group-2",
            "guest-follow-1",
        ),
        events={"kill": 3, "pause": 3, "skip": 2, "kafka-down": 0.5},
        steps=5_000,
    ),
    "exports": Profile(
        workers=("writer-1", "writer-2", "expirer-1", "expirer-2", "exporter-1"),
        events={"kill": 1, "pause": 8, "skip": 1},
        rates=Rates(slow=0.04),
        steps=3_000,
    ),
    "tables": Profile(
        workers=("writer-1", "publisher-1", "operator-1", "keeper-1", "keeper-2"),
        events={"kill": 2, "pause": 2, "topic-again": 0.4, "partitions": 0.4, "retention": 0.5, "backup": 1, "restore": 0.5},
        steps=4_000,
    ),
    "all": Profile(
        workers=(
            "writer-1",
            "publisher-1",
            "operator-1",
            "group-1",
            "group-2",
            "newcomer-1",
            "keeper-1",
            "retainer-1",
            "archiver-1",
            "webhook-1",
            "maintainer-1",
            "follow-1",
        ),
        events={
            "kill": 3,
            "pause": 2,
            "skip": 1,
            "backup": 1,
            "restore": 0.7,
            "partitions": 0.4,
            "topic-again": 0.3,
            "retention": 0.3,
            "receiver-down": 1,
        },
        script=((0.3, "backup"), (0.55, "restore")),
        steps=6_000,
    ),
    "merge-restores": Profile(
        workers=("releaser-1", "writer-1", "maintainer-1", "follow-1"),
        events={"kill": 2, "pause": 1, "backup": 1, "restore": 0.5},
        script=((0.3, "backup"), (0.55, "restore")),
    ),
    "merges": Profile(workers=("releaser-1", "maintainer-1"), events={"kill": 3}, steps=3_000, faults=False),
    "maintenance": Profile(
        workers=("writer-1", "writer-2", "poll-1", "maintainer-1", "maintainer-2"),
        events={"kill": 3, "pause": 3, "skip": 5},
        steps=4_000,
    ),
}

MAKERS: dict[str, Callable[[Environment, str], Worker]] = {
    "publisher": PublisherWorker,
    "operator": Operator,
    "group": lambda env, name: KafkaWorker(env, name, group="billing", follow=True),
    "newcomer": lambda env, name: KafkaWorker(env, name, group=None, follow=False),
    "kafka-follower": lambda env, name: KafkaWorker(env, name, group=None, follow=True),
    "webhook": WebhookWorker,
    "archiver": Archiver,
    "keeper": Keeper,
    "purger": Purger,
    "guest-group": lambda env, name: KafkaWorker(env, name, group="guests", follow=True, realm=GUEST),
    "guest-follow": lambda env, name: PollReader(env, name, follow=True, pointer=MAIN, realm=GUEST),
    "retainer": Retainer,
    "kafka-retainer": lambda env, name: Retainer(env, name, kafka_share=1.0),
    "writer": Writer,
    "releaser": Releaser,
    "maintainer": Maintainer,
    "expirer": lambda env, name: Maintainer(env, name, works=(1, 0, 0)),
    "exporter": lambda env, name: Maintainer(env, name, works=(0, 0, 1), supersedes=1.0),
    "poll": lambda env, name: PollReader(env, name, follow=False, pointer=MAIN),
    "follow": lambda env, name: PollReader(env, name, follow=True, pointer=MAIN),
}


def make_workers(env: Environment) -> dict[str, Worker]:
    workers = {name: MAKERS[name.rpartition("-")[0]](env, name) for name in env.plan.workers}
    env.log_checks.on_floor = lambda realm, name, row: (check_floor(env, name, row), check_published(env, name, row))
    return workers


def usual() -> list[str]:
    """The profiles that a healthy tree passes."""
    return [name for name, profile in PROFILES.items() if not any(map(defects.is_open, profile.needs))]
