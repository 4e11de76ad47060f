"""Every content that a retained state of a realm holds: where its metadata lies, once for each location.

Retained are the states from each pointer's floor to its head, including those of tags and deleted references.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from headwater.persistence.backend import Backend
from headwater.persistence.log.log_entry import CONTENT, Content
from headwater.producer.content.content_types import DELTA_TABLE, ICEBERG_TABLE, ICEBERG_VIEW, NAMESPACE, UDF
from headwater.producer.pointer_names import parse_reference_pointer
from headwater.streaming.files.marks.forgotten_contents import forgotten_contents
from headwater.streaming.files.operations import DELTA_TABLE as DELTA_FILES
from headwater.streaming.files.operations import TABLE, VIEW
from headwater.streaming.reachability.id_set import IdCollector, IdSet
from headwater.streaming.reachability.retained_identifiers import Identifiers, Marks, Span, WalkedRealm, WalkShare

CONTENTS_PER_READ = 500
DELTA_LOG = "/_delta_log/"


class ContentFiles(NamedTuple):
    """A content with files of its own."""

    kind: str
    """As in `FileOperations.identify`; empty for a type whose files cannot be named here."""
    location: str
    """Location of the metadata file; of the table for Delta; empty if the content names none."""
    type: str


class _ContentIds:
    """Collects the ids of contents while the walk marks them."""

    type = CONTENT.name
    covers: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self.collector = IdCollector()

    def identify(self, realm: WalkedRealm, object_id: int, marks: Marks) -> None:
        self.collector.add((object_id,))


def retained_contents(
    backend: Backend, realm: str, spans: Mapping[str, Span], forgotten: Container[int] | None = None
) -> Iterator[ContentFiles]:
    """`ObjectNotFound` if a retained state misses an object: then what it needs is unknown. Only branches and tags hold
    contents with files; the other pointers hold records. ⚠ `spans` include the pointer of forgotten tables, unless `forgotten`
    says which they are."""
    forgotten = forgotten_contents(backend, realm, spans) if forgotten is None else forgotten
    spans = reference_spans(spans)
    ids = _ContentIds()
    Identifiers(of_objects=[ids]).retained(backend, realm, spans)
    yield from contents_of(backend, realm, spans, ids.collector.finish(), forgotten)


def reference_spans(spans: Mapping[str, Span]) -> dict[str, Span]:
    return {name: span for name, span in spans.items() if parse_reference_pointer(name) is not None}


def content_ids(backend: Backend, realm: str, spans: Mapping[str, Span], shares: Sequence[WalkShare]) -> IdSet:
    """Ids of contents in some entries of some branches and tags."""
    ids = _ContentIds()
    Identifiers(of_objects=[ids]).retained_of(backend, realm, spans, shares)
    return ids.collector.finish()


def walk_shares(spans: Mapping[str, Span], entries_max: int) -> list[WalkShare]:
    return list(Identifiers(of_objects=[_ContentIds()]).shares(spans, entries_max))


def contents_of(
    backend: Backend, realm: str, spans: Mapping[str, Span], ids: Iterable[int], forgotten: Container[int]
) -> Iterator[ContentFiles]:
    """The contents with files, each once, without the versions of forgotten tables, which are object ids as well."""
    objects = WalkedRealm(backend, realm, spans).objects
    seen: set[ContentFiles] = set()
    rest = (one for one in ids if one not in forgotten)
    while batch := list(itertools.islice(rest, CONTENTS_PER_READ)):
        yield from _fresh(objects.fetch_many(CONTENT, batch).values(), seen)


def _fresh(contents: Iterable[Content], seen: set[ContentFiles]) -> Iterator[ContentFiles]:
    for content in contents:
        if not has_files(content.type, content.value):
            continue
        files = content_files(content)
        if files not in seen:
            seen.add(files)
            yield files


def has_files(type: str, value: Mapping[str, object]) -> bool:
    """Namespaces, and functions whose text is sent, have none."""
    return type != NAMESPACE.name and (type != UDF.name or bool(value.get("metadata_location")))


def content_files(content: Content) -> ContentFiles:
    """⚠ A type that is not known here may still have files: its kind is empty, and the caller must fail closed."""
    value, name = content.value, content.type
    if name == ICEBERG_TABLE.name:
        return ContentFiles(TABLE, str(value["metadata_location"]), name)
    if name == ICEBERG_VIEW.name:
        return ContentFiles(VIEW, str(value["metadata_location"]), name)
    if name == DELTA_TABLE.name:
        return ContentFiles(DELTA_FILES, _delta_root(value), name)
    return ContentFiles("", str(value.get("metadata_location") or ""), name)


def _delta_root(value: Mapping[str, object]) -> str:
    named = value.get("metadata_location_history")
    newest = str(named[0]) if isinstance(named, list) and named else ""
    root, found, _ = newest.partition(DELTA_LOG)
    return root if found else ""
