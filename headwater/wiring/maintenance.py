"""The parts of a maintenance cycle, for `maintain schedule` and for the server."""

from __future__ import annotations

from functools import partial

from headwater.persistence.store import Store
from headwater.settings import Settings
from headwater.streaming.expire.retention import parse_retention
from headwater.streaming.schedule import CycleTools, ScheduleOptions
from headwater.wiring.external_resources import external_resources
from headwater.wiring.sweeps import scheduled_plan, sweep_backend


def schedule_options(settings: Settings, every_seconds: float) -> ScheduleOptions:
    parse_retention(settings.retention)  # a rule that is none is refused at once, not at night
    return ScheduleOptions(every_seconds=every_seconds, retention=settings.retention)


def cycle_tools(store: Store, settings: Settings) -> CycleTools:
    return CycleTools(
        external_resources=external_resources(store, settings),
        sweep_backend=partial(sweep_backend, settings, scheduled_plan(settings)),
    )
