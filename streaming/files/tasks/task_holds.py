"""Says what a dropped table's files wait for: a branch, a tag, or history that is still readable."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import msgspec

from headwater.persistence.backend import Backend
from headwater.producer.content.folding import fold
from headwater.producer.immediate_tasks import ImmediateTask
from headwater.producer.pointer_names import parse_reference_pointer
from headwater.streaming.files.marks.forgotten_contents import forgotten_contents
from headwater.streaming.files.sweep.retained_contents import retained_contents
from headwater.streaming.reachability.retained_identifiers import Span

HOLDERS_TOLD_MAX = 5


def held_by_history(backend: Backend, realm: str, task: ImmediateTask) -> str:
    """Reads one row: while the state before the drop is readable, the files stay. Empty if it is not."""
    row = backend.read_pointer(realm, task.pointer)
    if row is None or not task.drop_seq or row.floor >= task.drop_seq:
        return ""
    return f"history of {_name(task.pointer)} before entry {task.drop_seq}"


def holders(
    backend: Backend,
    spans: Mapping[str, Mapping[str, Span]],
    location: str,
    forgotten: Mapping[str, Collection[int]] | None = None,
) -> list[str]:
    """The first few references of any realm that have this metadata file in a retained state. `forgotten` are versions by
    realm whose history is being given up."""
    found: list[str] = []
    for holder in _holders(backend, spans, fold(location), forgotten or {}):
        found.append(holder)
        if len(found) == HOLDERS_TOLD_MAX:
            break
    return found


def _holders(
    backend: Backend, spans: Mapping[str, Mapping[str, Span]], folded: str, forgotten: Mapping[str, Collection[int]]
) -> Iterator[str]:
    for realm, pointers in spans.items():
        gone = {*forgotten_contents(backend, realm, pointers), *forgotten.get(realm, ())}

        def has(pointer: str, span: Span, realm: str = realm, gone: Collection[int] = gone) -> bool:
            contents = retained_contents(backend, realm, {pointer: span}, gone)
            return any(fold(content.location) == folded for content in contents)

        for pointer, span in pointers.items():
            if parse_reference_pointer(pointer) is None:
                continue
            if has(pointer, msgspec.structs.replace(span, floor=span.seq)):
                yield _name(pointer)
            elif has(pointer, span):
                yield f"history of {_name(pointer)}"


def _name(pointer: str) -> str:
    named = parse_reference_pointer(pointer)
    return pointer if named is None else f"{named.type.lower()} {named.name}"
