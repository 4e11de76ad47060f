"""Compares a polled source as a whole: all differences become one commit, whatever versions were between."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.producer.connectors.bridge_plan import Held, ancestors, namespace_of, plan_bridge
from headwater.producer.connectors.destination import Seen
from headwater.producer.connectors.polled_state import PolledState
from headwater.producer.connectors.source_spi import Observation
from headwater.schemas.change import KeyPath

GAP = "the state was compared as a whole"


def replace_all(state: PolledState, wanted: dict[KeyPath, Held], listed: Sequence[KeyPath]) -> None:
    """The newest state of all tables in one commit. A table that cannot be read stays as it is."""
    for key in [key for key in state.tags if state.scope.covers(key)]:
        del state.tags[key]
    if state.destination.path:
        wanted.setdefault(state.destination.path, state.held.get(state.destination.path) or namespace_of({}))
    for key in listed:
        state.keep_going()
        found = state.observe(key)
        with state.counted(key):
            if isinstance(found, Observation):
                at, one = state.destination.key(key), state.wanted(key, found, found.steps[-1])
                state.require_inside(at, one, set())
                wanted[at] = one
    stays = _kept(state, wanted, {state.destination.key(key) for key in listed})
    gone = [key for key in state.held if state.covers(key) and key not in stays and len(key) > len(state.destination.path)]
    plan = plan_bridge(state.held, wanted, gone)
    for operations in (plan.first, plan.then):
        if operations:
            state.commit(operations, Seen(version="", gap=GAP, message="Full rescan"))
            state.tally.add(gaps=1)
    state.tally.add(renamed=plan.renamed, dropped=plan.dropped)


def _kept(state: PolledState, wanted: dict[KeyPath, Held], listed: set[KeyPath]) -> set[KeyPath]:
    """Tables that could not be read, or that the source does not say to be gone, and what is above them."""
    kept = set[KeyPath]()
    for key, there in state.held.items():
        if key not in wanted and state.is_table(key, there) and state.covers(key):
            kept.add(key)
            if key not in listed:
                state.keep_going()
                with state.counted(state.destination.source_key(key)):
                    kept -= {key} if state.is_gone(key, there) else set()
    return kept | {above for key in kept for above in ancestors(key)}
