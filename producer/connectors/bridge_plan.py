"""Turns what a source wants at some keys into operations on what the destination holds there. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from headwater.producer.commits.operations import CatalogOperation, Delete, Put, Rename
from headwater.producer.connectors.source_spi import Observation, Step
from headwater.producer.content.content_types import NAMESPACE, Namespace, from_value
from headwater.schemas.change import KeyPath, Value


class Held(msgspec.Struct, frozen=True):
    """A content of the destination, or one that is wanted there."""

    content_id: str
    """Empty for one that is wanted and whose source gives no id."""
    type: str
    value: Value

    @property
    def content(self) -> msgspec.Struct:
        return from_value(self.type, self.value)


class BridgePlan(msgspec.Struct, frozen=True, kw_only=True):
    first: Sequence[CatalogOperation]
    """Deletes contents whose key another content takes over: they are two contents, so it takes two commits.
    ⚠ On condition of just that content: a process that slept before its commit finds its successor's there."""
    then: Sequence[CatalogOperation]
    renamed: int
    dropped: int


def ancestors(key: KeyPath) -> Iterable[KeyPath]:
    return (key[:levels] for levels in range(1, len(key)))


def plan_bridge(held: Mapping[KeyPath, Held], wanted: Mapping[KeyPath, Held], gone: Iterable[KeyPath]) -> BridgePlan:
    """`held` has what stands at all keys concerned and at their ancestors. What is so already is left out.

    Some sources have namespaces that exist only as parts of keys: they are made, and stay while something is in them."""
    needed = {ancestor for key in wanted for ancestor in ancestors(key)}
    going = {key for key in gone if key in held and key not in wanted and key not in needed}
    by_id = {held[key].content_id: key for key in going}
    first: list[CatalogOperation] = []
    then: list[CatalogOperation] = []
    renamed = 0
    for key, content in sorted(wanted.items()):
        there = held.get(key)
        if there is not None and is_same_content(there, content):
            if there.value != content.value:
                then.append(Put(key, content.content))
            continue
        came_from = by_id.get(content.content_id) if there is None and content.content_id else None
        if came_from is not None and came_from in going and held[came_from].value == content.value:
            going.discard(came_from)
            then.append(Rename(came_from, key))
            renamed += 1
            continue
        if there is not None:
            first.append(Delete(key, expected=there.content, expected_content_id=there.content_id))
        then.append(Put(key, content.content, content_id=content.content_id or None))
    then.extend(Put(key, Namespace()) for key in sorted(needed) if key not in wanted and key not in held)
    then.extend(Delete(key) for key in sorted(going))
    return BridgePlan(first=first, then=then, renamed=renamed, dropped=len(going))


def plan_step(key: KeyPath, there: Held, value: Value) -> Sequence[CatalogOperation]:
    """The next version of a table that is there, unless another process has written it since it was read."""
    return [Put(key, from_value(there.type, value), expected=from_value(there.type, there.value))]


def new_steps(there: Held | None, found: Observation, *, is_first_poll: bool) -> tuple[Sequence[Step], str]:
    """The versions of a polled table to commit, oldest first, and why some are missing before the first of them."""
    if there is None:
        gap = "" if is_first_poll or found.is_whole else "the source does not say how the table began"
        return (found.steps[-1:] if is_first_poll else found.steps), gap
    versions = [step.version for step in found.steps]
    if version_of(there.value) in versions:
        return found.steps[versions.index(version_of(there.value)) + 1 :], ""
    return found.steps[-1:], "the source does not say which versions were between"


def version_of(value: Value) -> str:
    """Under which a polled source names what stands at the destination."""
    history = value.get("metadata_location_history") or [""]
    return str(value.get("metadata_location", history[0]))


def is_same_content(there: Held, wanted: Held) -> bool:
    """⚠ A table that was dropped and re-created is another one, whatever its name. Namespaces are their names."""
    if there.type != wanted.type:
        return False
    return wanted.type == NAMESPACE.name or not wanted.content_id or there.content_id == wanted.content_id


def namespace_of(properties: Mapping[str, str]) -> Held:
    return Held("", NAMESPACE.name, msgspec.to_builtins(Namespace(dict(properties))))
