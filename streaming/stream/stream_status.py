"""What a running stream reports about itself: lag by realm, and what each task did last."""

from __future__ import annotations

import msgspec


class RealmStatus(msgspec.Struct, kw_only=True):
    realm: str
    source: str = ""
    """`kafka` or `log`: where its Changes come from."""
    behind: int | None = None
    """Entries of the log that the set does not know yet; None while that is unknown."""
    step: int = 0
    rows: int = 0
    updates: int = 0
    updated_at: str = ""
    seconds: float = 0.0
    """Seconds that the last update took."""
    failure: str = ""


class TaskStatus(msgspec.Struct, kw_only=True):
    task: str
    every_seconds: float
    is_running: bool = False
    runs: int = 0
    ended_at: str = ""
    seconds: float = 0.0
    failures: list[str] = []


class StreamStatus(msgspec.Struct, kw_only=True):
    started_at: str
    state: str = "starting"
    """starting, running or stopping."""
    rounds: int = 0
    failure: str = ""
    """Why the realms were not listed in the last round."""
    realms: dict[str, RealmStatus] = {}
    """By instance."""
    tasks: dict[str, TaskStatus] = {}

    @property
    def is_ready(self) -> bool:
        """Whether every realm has been processed since the start."""
        looked = all(realm.updates or realm.failure for realm in self.realms.values())
        return self.state == "running" and self.rounds > 0 and looked

    @property
    def failures(self) -> list[str]:
        of_realms = [f"{realm.realm}: {realm.failure}" for realm in self.realms.values() if realm.failure]
        listing = [self.failure] if self.failure else []
        return listing + of_realms + [failure for task in self.tasks.values() for failure in task.failures]


def metrics_text(status: StreamStatus) -> str:
    """In Prometheus' text format."""
    lines = [
        "# HELP headwater_stream_rounds_total Rounds over all realms.",
        "# TYPE headwater_stream_rounds_total counter",
        f"headwater_stream_rounds_total {status.rounds}",
        "# HELP headwater_stream_lag_commits Entries that a realm's retained set does not know yet.",
        "# TYPE headwater_stream_lag_commits gauge",
        *(
            f'headwater_stream_lag_commits{{realm="{one.realm}"}} {one.behind}'
            for one in status.realms.values()
            if one.behind is not None
        ),
        "# HELP headwater_stream_realm_failing 1 while the last update of a realm has failed.",
        "# TYPE headwater_stream_realm_failing gauge",
        *(f'headwater_stream_realm_failing{{realm="{one.realm}"}} {int(bool(one.failure))}' for one in status.realms.values()),
        "# HELP headwater_stream_update_seconds Time that the last update of a realm took.",
        "# TYPE headwater_stream_update_seconds gauge",
        *(f'headwater_stream_update_seconds{{realm="{one.realm}"}} {one.seconds}' for one in status.realms.values()),
        "# HELP headwater_stream_task_runs_total Times a task has run.",
        "# TYPE headwater_stream_task_runs_total counter",
        *(f'headwater_stream_task_runs_total{{task="{one.task}"}} {one.runs}' for one in status.tasks.values()),
        "# HELP headwater_stream_task_failures Failures of the last run of a task.",
        "# TYPE headwater_stream_task_failures gauge",
        *(f'headwater_stream_task_failures{{task="{one.task}"}} {len(one.failures)}' for one in status.tasks.values()),
    ]
    return "\n".join(lines) + "\n"
