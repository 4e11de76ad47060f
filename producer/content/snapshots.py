"""Reads keys and contents at one entry: by key, or in pages in key order, by prefix, type and level.

A page token carries the entry that the first page was read at: pages of one listing fit together whatever is committed between
them. A state of which a part is gone is expired, never given out in part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from headwater.persistence.index import IndexValue, children_bounds, decode_key, encode_key, just_after, subtree_bounds
from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.reading.state import State
from headwater.persistence.store import RealmKernel
from headwater.producer.content.content_types import OTHER_TAG, all_content_types
from headwater.producer.page_tokens import check_limit, make_token, read_token
from headwater.producer.pointer_names import parse_reference_pointer
from headwater.schemas.change import KeyPath, Value
from headwater.schemas.entry_ids import content_id_text
from headwater.schemas.errors import CursorExpired, InvalidInput, ObjectNotFound

PAGE_KEYS_MAX = 10_000
KEYS_SCANNED_MAX = 100_000
"""For one page that filters: it ends early, with a token, rather than run on."""


class ContentEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One key and the content there."""

    key: KeyPath
    type: str
    content_id: str
    value: Value


class SnapshotPage(msgspec.Struct, frozen=True, kw_only=True):
    entries: list[ContentEntry]
    next_token: str | None
    pointer: str
    seq: int
    commit_id: str
    """The state that the page is of: follow the pointer's log after this seq, and there is no seam."""


class SnapshotPosition(msgspec.Struct, frozen=True, array_like=True):
    entry_id: bytes
    after: bytes


class Snapshots:
    """States of one catalog."""

    def __init__(self, kernel: RealmKernel, catalog_id: int) -> None:
        self._kernel = kernel
        self._catalog_id = catalog_id

    def get(self, at: LogRecord, keys: Sequence[Sequence[str]]) -> dict[KeyPath, ContentEntry]:
        """The contents at those of the keys that exist, by three bulk reads at most."""
        encoded = {tuple(key): encode_key(key) for key in keys}
        with _Whole(at):
            state = State(self._kernel, at)
            values = state.index.get_many(encoded.values())
            return {entry.key: entry for entry in _entries(state, values.items())}

    def content_object(self, at: LogRecord, key: Sequence[str]) -> int | None:
        """The id of the object that holds the content at the key."""
        with _Whole(at):
            found = State(self._kernel, at).index.get(encode_key(tuple(key)))
            return None if found is None else found.object_id

    def page(
        self,
        at: LogRecord,
        *,
        prefix: Sequence[str] = (),
        name_prefix: str = "",
        types: Sequence[str] | None = None,
        children_only: bool = False,
        token: str | None = None,
        limit: int = 1_000,
    ) -> SnapshotPage:
        """Keys below the prefix, without the prefix itself; `children_only` leaves out what lies deeper, `name_prefix` those
        whose name just below the prefix begins otherwise."""
        check_limit(limit, PAGE_KEYS_MAX)
        after = b""
        if token is not None:
            at, after = self._at(token)
        with _Whole(at):
            state = State(self._kernel, at)
            found, last = _take(state, tuple(prefix), name_prefix, after, limit, types, children_only)
            return SnapshotPage(
                entries=_entries(state, found),
                next_token=None if last is None else make_token(SnapshotPosition(at.entry_id, last)),
                pointer=at.entry.pointer,
                seq=at.entry.seq,
                commit_id=at.commit.hex(),
            )

    def entries(
        self, at: LogRecord, *, prefix: Sequence[str] = (), types: Sequence[str] | None = None
    ) -> Iterator[ContentEntry]:
        """All below the prefix, in key order, as of one entry, however long it takes."""
        token: str | None = None
        while True:
            page = self.page(at, prefix=prefix, types=types, token=token)
            yield from page.entries
            token = page.next_token
            if token is None:
                return

    def _at(self, token: str) -> tuple[LogRecord, bytes]:
        position = read_token(token, SnapshotPosition)
        try:
            logged = self._kernel.walk.verified_header(position.entry_id)
        except ObjectNotFound:
            raise _expired("the state that the token is of") from None
        named = parse_reference_pointer(logged.entry.pointer)
        if named is None or named.catalog_id != self._catalog_id:
            raise InvalidInput("the token is of another catalog.", field="page_token", remedy="Start again without a token.")
        return logged, position.after


class _Whole:
    """Whatever turns out to be gone while a state is read makes the whole state expired."""

    def __init__(self, at: LogRecord) -> None:
        self._at = at

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, ObjectNotFound):
            raise _expired(f"the state at {self._at.commit.hex()}") from error


def _take(
    state: State,
    prefix: KeyPath,
    name_prefix: str,
    after: bytes,
    limit: int,
    types: Sequence[str] | None,
    children_only: bool,
) -> tuple[list[tuple[bytes, IndexValue]], bytes | None]:
    """The keys of a page, and the last one that was looked at if more may come."""
    lower, upper = children_bounds(prefix, name_prefix)
    lower = max(lower, just_after(after)) if after else lower
    wanted = None if types is None else _tags(types)
    found: list[tuple[bytes, IndexValue]] = []
    last = after
    keys = _children(state, lower, upper, len(prefix) + 1) if children_only else state.index.items(lower, upper)
    for scanned, (key, value) in enumerate(keys):
        if len(found) == limit or scanned == KEYS_SCANNED_MAX:
            return found, last
        last = key
        if wanted is None or value.tag in wanted:
            found.append((key, value))
    return found, None


def _children(state: State, lower: bytes, upper: bytes, depth: int) -> Iterator[tuple[bytes, IndexValue]]:
    """Keys of exactly that depth; keys below one of them are skipped without being read."""
    while True:
        for key, value in state.index.items(lower, upper):
            path = decode_key(key)
            if len(path) > depth:
                lower = subtree_bounds(path[:depth])[1]
                break
            yield key, value
        else:
            return


def _tags(types: Sequence[str]) -> set[int]:
    tags = {name: all_content_types().tag_of(name) for name in types}
    unknown = [name for name, tag in tags.items() if tag == OTHER_TAG]
    if unknown:
        raise InvalidInput(
            f"{unknown[0]!r} is not a content type that is known here.",
            field="types",
            remedy=f"Use some of {', '.join(all_content_types().names())}.",
        )
    return set(tags.values())


def _entries(state: State, found: Iterable[tuple[bytes, IndexValue]]) -> list[ContentEntry]:
    pairs = list(found)
    contents = state.contents(value for _, value in pairs)
    entries = []
    for key, value in pairs:
        content = contents[value.object_id]
        entries.append(
            ContentEntry(
                key=decode_key(key), type=content.type, content_id=content_id_text(content.content_id), value=content.value
            )
        )
    return entries


def _expired(what: str) -> CursorExpired:
    return CursorExpired(f"{what} has expired.", field="reference", remedy="Read the branch at a newer commit.")
