"""Resolves names and specs such as `main~3` with the pointers and commits of a server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from headwater.client.remote_manage import RemoteManage
from headwater.client.server_calls import ServerCalls
from headwater.consumers.clients.http_poll import HttpPoll
from headwater.consumers.clients.reader import Reader
from headwater.producer.catalogs.catalog_records import Catalog, CatalogStatus
from headwater.producer.commits.catalog_commit import CommitResult
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.pointer_names import ReferenceType, catalog_prefix, reference_pointer, references_prefix
from headwater.producer.references.reference_specs import DEFAULT_BRANCH, Step, StepKind, parse_reference_spec
from headwater.producer.references.references import Reference, ReferencePage
from headwater.schemas.change import Change
from headwater.schemas.entry_ids import EMPTY, micros_of
from headwater.schemas.errors import HeadwaterError, ReferenceNotFound
from headwater.schemas.http.feed_json import PointerInfo, PointerKind
from headwater.schemas.http.manage_json import CatalogInfo, MutationMeta


class ResolvedCommit(NamedTuple):
    pointer: str
    commit_id: str
    is_head: bool
    """Only the reference was named: its newest state is meant."""


class RemoteReferences:
    """The branches and tags of one catalog of a server."""

    def __init__(self, calls: ServerCalls, manage: RemoteManage, catalog: Catalog) -> None:
        self._calls = calls
        self._manage = manage
        self._catalog = catalog

    def get(self, name: str, *, type: ReferenceType, deleted_ok: bool = False) -> Reference:
        found = self._find(name, type)
        if found is None or (found.deleted and not deleted_ok):
            raise _no_reference(name)
        return found

    def list(
        self, *, type: ReferenceType | None = None, token: str | None = None, limit: int = 100, deleted: bool = False
    ) -> ReferencePage:
        id = self._catalog.id
        page = self._calls.pointers(catalog_prefix(id) if type is None else references_prefix(id, type), token, limit)
        found = [self._reference(info) for info in page.pointers if info.kind is not PointerKind.RECORDS]
        return ReferencePage([one for one in found if deleted or not one.deleted], page.next_token)

    def create(self, name: str, source: str, *, type: ReferenceType, meta: CommitMeta) -> CommitResult:
        done = self._manage.create_reference(self._catalog.name, name, type, source, meta)
        return self._outcome(done.reference.commit_id, done.meta)

    def assign(
        self, name: str, target: str, *, type: ReferenceType, expected_head: str | None = None, meta: CommitMeta
    ) -> CommitResult:
        done = self._manage.assign_reference(self._catalog.name, name, type, target, expected_head, meta)
        return self._outcome(done.reference.commit_id, done.meta)

    def delete(self, name: str, *, type: ReferenceType, expected_head: str | None = None, meta: CommitMeta) -> CommitResult:
        before = self.get(name, type=type)
        done = self._manage.delete_reference(self._catalog.name, name, type, expected_head, meta)
        return self._outcome(before.commit_id, done.meta)

    def _outcome(self, commit_id: str, meta: MutationMeta) -> CommitResult:
        """Includes the Change that a move became, read from the feed."""
        change = self._calls.find_commit(meta.entry_id) if meta.changed and meta.entry_id else None
        return CommitResult(returned=change, commit_id=commit_id, seq=meta.seq, replayed=meta.replayed)

    def log(self, at: str) -> Iterator[Change]:
        commit_id = self.resolve(at).commit_id
        while commit_id != EMPTY.hex():
            change = self._calls.find_commit(commit_id)
            yield change
            commit_id = change.parent_id

    def resolve(self, spec: str) -> ResolvedCommit:
        parsed = parse_reference_spec(spec, "at")
        if parsed.commit is None and not parsed.steps:
            reference = self._live(parsed.name)
            return ResolvedCommit(reference.pointer, reference.commit_id, True)
        commit_id = self._live(parsed.name).commit_id if parsed.commit is None else parsed.commit.hex()
        for step in parsed.steps:
            commit_id = self._step(commit_id, step, spec)
        return ResolvedCommit(self._calls.find_commit(commit_id).pointer, commit_id, False)

    # ── steps ───────────────────────────────────────────────────────────────────────────────────────────────

    def _step(self, commit_id: str, step: Step, spec: str) -> str:
        change = self._calls.find_commit(commit_id)
        match step.kind:
            case StepKind.PARENT if step.number == 2 and change.source is not None:
                return change.source.commit_id
            case StepKind.PARENT:
                return _behind_first(change.parent_id if step.number == 1 else EMPTY.hex(), spec)
            case StepKind.ANCESTOR:
                for _ in range(step.number):
                    commit_id = _behind_first(self._calls.find_commit(commit_id).parent_id, spec)
            case StepKind.TIME:
                while micros_of(change.time) > step.number:
                    change = self._calls.find_commit(_behind_first(change.parent_id, spec))
                commit_id = change.commit_id
        return commit_id

    def _live(self, name: str | None) -> Reference:
        wanted = self._catalog.default_branch if name in (None, DEFAULT_BRANCH) else str(name)
        for type in (ReferenceType.BRANCH, ReferenceType.TAG):
            found = self._find(wanted, type)
            if found is not None and not found.deleted:
                return found
        raise _no_reference(wanted)

    def _find(self, name: str, type: ReferenceType) -> Reference | None:
        pointer = reference_pointer(self._catalog.id, type, name)
        found = [info for info in self._calls.pointers(pointer, limit=1).pointers if info.name == pointer]
        return self._reference(found[0]) if found else None

    def _reference(self, info: PointerInfo) -> Reference:
        type = ReferenceType.BRANCH if info.kind is PointerKind.BRANCH else ReferenceType.TAG
        return Reference(
            name=info.name.removeprefix(reference_pointer(self._catalog.id, type, "x")[:-1]),
            type=type,
            pointer=info.name,
            commit_id=info.commit_id,
            seq=info.seq,
            oldest_seq=info.oldest_seq,
            time=self._time(info),
            deleted=info.deleted,
        )

    def _time(self, info: PointerInfo) -> str:
        """For the newest entry, which a listing does not show: the last one after the previous one."""
        target = msgspec.structs.replace(self._calls.target, pointers=(info.name,))
        reader = Reader(HttpPoll(self._calls.client, target), str(max(info.seq, info.oldest_seq) - 1))
        return next((change.time for change in reader.changes(follow=False) if change.seq == info.seq), "")


def catalog_record(info: CatalogInfo) -> Catalog:
    return Catalog(
        name=info.name,
        id=info.id,
        status=CatalogStatus.ACTIVE,
        storage_root=info.storage_root,
        created_by=info.created_by,
        created_at=micros_of(info.created),
        default_branch=info.default_branch,
        properties=info.properties,
    )


def _behind_first(commit_id: str, spec: str) -> str:
    if commit_id == EMPTY.hex():
        raise ReferenceNotFound(f"{spec!r} leads beyond the first commit.", field="at", remedy="Go back fewer steps.")
    return commit_id


def _no_reference(name: str) -> HeadwaterError:
    return ReferenceNotFound(f"there is no branch or tag {name!r}.", field="reference", remedy="List the references.")
