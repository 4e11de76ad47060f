"""Finds the key of a content id in the state of a branch: exactly, by following the branch's log.

The index of a branch is built by one walk over its keys and kept up to date from the log's entries. A key that it names counts
only if the state that was asked for holds that id there; where it does not, the keys are walked again. So an answer is never
older than the state, and an id that is not found is not there.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from headwater.persistence.index import children_bounds, decode_key
from headwater.persistence.log.log_entry import LogRecord, change_of
from headwater.persistence.reading.state import State
from headwater.persistence.store import RealmKernel
from headwater.producer.content.snapshots import ContentEntry, Snapshots
from headwater.schemas.change import COMMITTING_KINDS, KeyPath, Op
from headwater.schemas.entry_ids import content_id_text

BRANCHES_MAX = 16
"""Whose indexes are kept; those used last."""
FOLLOWED_MAX = 10_000
"""Entries behind: more are not followed, the keys are walked again."""
WALK_KEYS = 1_000


class _Index:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.at: LogRecord | None = None
        self.keys: dict[str, KeyPath] = {}


class Directories:
    """Of one worker. Thread-safe; may wait for the store."""

    def __init__(self) -> None:
        self._indexes: OrderedDict[tuple[str, str], _Index] = OrderedDict()
        self._lock = threading.Lock()
        self.walks = 0

    def find(self, kernel: RealmKernel, catalog_id: int, at: LogRecord, content_id: str) -> ContentEntry | None:
        """What stands in that state under the id; None if nothing does."""
        index = self._of((kernel.realm, at.entry.pointer))
        with index.lock:
            self._bring_to(index, kernel, at)
            key = index.keys.get(content_id)
        if key is None:
            return None
        found = Snapshots(kernel, catalog_id).get(at, [key]).get(key)
        return found if found is not None and found.content_id == content_id else None

    def _of(self, name: tuple[str, str]) -> _Index:
        with self._lock:
            index = self._indexes.pop(name, None) or _Index()
            self._indexes[name] = index
            while len(self._indexes) > BRANCHES_MAX:
                self._indexes.popitem(last=False)
            return index

    def _bring_to(self, index: _Index, kernel: RealmKernel, at: LogRecord) -> None:
        if index.at is not None and index.at.entry_id == at.entry_id:
            return
        if not self._follow(index, kernel, at):
            self._walk(index, kernel, at)
        index.at = at

    def _follow(self, index: _Index, kernel: RealmKernel, at: LogRecord) -> bool:
        """Whether the entries between were plain commits of the same history, and are applied now."""
        known = index.at
        if known is None or not 0 < at.entry.seq - known.entry.seq <= FOLLOWED_MAX:
            return False
        entries: list[LogRecord] = []
        one = at
        while one.entry.seq > known.entry.seq:
            if one.entry.kind not in COMMITTING_KINDS:
                return False
            entries.append(one)
            if one.entry.seq - 1 == known.entry.seq:
                break
            one = kernel.walk.load(one.entry.previous)
        if entries[-1].entry.previous != known.entry_id:
            return False
        for logged in reversed(entries):
            _apply(index.keys, logged, kernel.realm_name)
        return True

    def _walk(self, index: _Index, kernel: RealmKernel, at: LogRecord) -> None:
        self.walks += 1
        state, keys = State(kernel, at), {}
        lower, upper = children_bounds(())
        items = list(state.index.items(lower, upper))
        for start in range(0, len(items), WALK_KEYS):
            part = items[start : start + WALK_KEYS]
            contents = state.contents(value for _, value in part)
            keys.update({content_id_text(contents[value.object_id].content_id): decode_key(key) for key, value in part})
        index.keys = keys


def _apply(keys: dict[str, KeyPath], logged: LogRecord, realm: str) -> None:
    """Deletions first: a rename in one commit may take a place that another content leaves."""
    operations = change_of(logged, realm).operations
    for one in operations:
        if one.op is Op.DELETE and keys.get(one.content_id) == one.key:
            del keys[one.content_id]
    for one in operations:
        if one.op is not Op.DELETE:
            keys[one.content_id] = one.key
