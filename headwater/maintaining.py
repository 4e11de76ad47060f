"""Settings and a store enter; what a cycle of maintenance works with leaves, for `maintain schedule` and for the server."""

from __future__ import annotations

from headwater.belongings import realm_belongings
from headwater.persistence.store import Store
from headwater.settings import Settings
from headwater.streaming.policies import parse_retention
from headwater.streaming.schedule import CycleTools, ScheduleOptions


def schedule_options(settings: Settings, every_seconds: float) -> ScheduleOptions:
    parse_retention(settings.retention)  # a rule that is none is refused at once, not at night
    return ScheduleOptions(every_seconds=every_seconds, retention=settings.retention)


def cycle_tools(store: Store, settings: Settings) -> CycleTools:
    return CycleTools(belongings=realm_belongings(store, settings))
