"""A seed enters; a plan leaves: which workers run, how often calls fail, and what happens at which step."""

from __future__ import annotations

import random

import msgspec

from tests.simulation import defects
from tests.simulation.world.store_faults import Rates, drawn_rates


class Event(msgspec.Struct, frozen=True, array_like=True):
    """Something that happens to the world at a step."""

    step: int
    kind: str
    target: str = ""
    seconds: float = 0.0


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    seed: int
    profile: str
    workers: tuple[str, ...]
    events: tuple[Event, ...]
    steps: int
    rates: Rates = Rates()
    kafka_rates: Rates = Rates()
    in_two_steps: bool = False


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """Which workers and events a run is made of."""

    workers: tuple[str, ...]
    events: dict[str, float]
    """Kind → how many of them a run has on average."""
    script: tuple[tuple[float, str], ...] = ()
    """Share of the steps → an event that comes about then in every run: what is telling only in this order."""
    rates: Rates | None = None
    """Of the store's faults, instead of drawn ones."""
    steps: int = 3_000
    faults: bool = True
    needs: tuple[str, ...] = ()
    """Defects that must be mended before this is run."""


def make_plan(profile_name: str, profile: Profile, seed: int) -> Plan:
    chance = random.Random(f"plan {profile_name} {seed}")
    steps = int(profile.steps * chance.uniform(0.5, 1.5))
    events: list[Event] = []
    for kind, mean in profile.events.items():
        for _ in range(int(mean) + (chance.random() < mean % 1) if chance.random() < 0.8 else 0):
            events.append(_event(kind, chance, profile.workers, steps))
    for share, kind in profile.script:
        event = _event(kind, chance, profile.workers, steps)
        events.append(msgspec.structs.replace(event, step=int(steps * share * chance.uniform(0.9, 1.1))))
    events.sort(key=lambda event: event.step)
    rates = profile.rates or (drawn_rates(chance) if profile.faults else Rates())
    if defects.is_open("h2"):
        events = [event for event in events if event.kind != "clock"]
        rates = msgspec.structs.replace(rates, slow=0.0, late=0.0)
    return Plan(
        seed=seed,
        profile=profile_name,
        workers=profile.workers,
        events=tuple(events),
        steps=steps,
        rates=rates,
        kafka_rates=drawn_rates(chance) if profile.faults else Rates(),
        in_two_steps=chance.random() < 0.5,
    )


def _event(kind: str, chance: random.Random, workers: tuple[str, ...], steps: int) -> Event:
    step = int(steps * chance.uniform(0.02, 0.95))
    seconds = chance.choice(_SECONDS.get(kind, (0.0,)))
    return Event(step, kind, chance.choice(workers), seconds)


_SECONDS = {
    "pause": (1.0, 5.0, 20.0, 100.0),
    "clock": (-30.0, -7.0, -2.0, 3.0, 20.0),
    "receiver-down": (3.0, 20.0, 100.0),
    "kafka-down": (1.0, 10.0, 40.0),
    "skip": (60.0, 400.0, 1_000.0),
}
