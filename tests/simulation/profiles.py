"""The kinds of runs: which workers share a store, and what happens to them."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation import defects
from tests.simulation.plan import Profile
from tests.simulation.workers.maintainers import Maintainer, check_floor
from tests.simulation.workers.poll_readers import PollReader
from tests.simulation.workers.releasers import Releaser
from tests.simulation.workers.writers import Writer
from tests.simulation.world.environment import Environment, Worker

MAIN = "cat/1/heads/main"
DEV = "cat/1/heads/dev"

PROFILES: dict[str, Profile] = {
    "commits": Profile(
        workers=("writer-1", "writer-2", "poll-1", "follow-1"),
        events={"kill": 3, "pause": 3, "clock": 1, "skip": 0.5},
    ),
    "restores": Profile(
        workers=("writer-1", "writer-2", "poll-1", "follow-1"),
        events={"kill": 1, "pause": 2, "backup": 3, "restore": 1.5},
        needs=("n7",),
    ),
    "merges": Profile(workers=("releaser-1", "maintainer-1"), events={"kill": 3}, steps=3_000, faults=False, needs=("h1",)),
    "maintenance": Profile(
        workers=("writer-1", "writer-2", "poll-1", "maintainer-1", "maintainer-2"),
        events={"kill": 3, "pause": 3, "skip": 5},
        steps=4_000,
    ),
}

MAKERS: dict[str, Callable[[Environment, str], Worker]] = {
    "writer": Writer,
    "releaser": Releaser,
    "maintainer": Maintainer,
    "poll": lambda env, name: PollReader(env, name, follow=False, pointer=MAIN),
    "follow": lambda env, name: PollReader(env, name, follow=True, pointer=MAIN),
}


def make_workers(env: Environment) -> dict[str, Worker]:
    workers = {name: MAKERS[name.rpartition("-")[0]](env, name) for name in env.plan.workers}
    maintainers = {name: worker for name, worker in workers.items() if isinstance(worker, Maintainer)}
    env.log_checks.on_floor = lambda realm, name, row: check_floor(env, maintainers, name, row)
    return workers


def usual() -> list[str]:
    """The profiles that a healthy tree passes."""
    return [name for name, profile in PROFILES.items() if not any(map(defects.is_open, profile.needs))]
