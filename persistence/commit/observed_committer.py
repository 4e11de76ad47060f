"""A committer that reports requests and outcomes to observers, and changes neither."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future

import msgspec

from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.persistence.commit.commit_request import CommitRequest
from headwater.persistence.commit.committer import Committer
from headwater.persistence.commit.draft import Draft
from headwater.persistence.commit.lane import LaneContext
from headwater.persistence.commit.observer import Observer
from headwater.persistence.rows import realm_name_of
from headwater.schemas.errors import HeadwaterError


class ObservedCommitter(Committer):
    """Used only if there are observers: observability costs nothing when disabled."""

    def __init__(self, context: LaneContext, observers: Sequence[Observer]) -> None:
        self._observers = observers
        self._realm_name = realm_name_of(context.realm)
        self._tell = context.moved
        super().__init__(msgspec.structs.replace(context, moved=self._landed))

    def submit(self, pointer: str, request: CommitRequest) -> Future[CommitOutcome]:
        callbacks = [observer.submitted(self._realm_name, pointer, request) for observer in self._observers]
        try:
            future = super().submit(pointer, request)
        except HeadwaterError as refusal:
            future = Future()
            future.set_exception(refusal)
            for callback in callbacks:
                callback(future)
            raise
        for callback in callbacks:
            future.add_done_callback(callback)
        return future

    def commit(self, pointer: str, request: CommitRequest) -> CommitOutcome:
        return self.submit(pointer, request).result()

    async def commit_async(self, pointer: str, request: CommitRequest) -> CommitOutcome:
        return await asyncio.wrap_future(self.submit(pointer, request))

    def _landed(self, pointer: str, draft: Draft) -> None:
        for observer in self._observers:
            observer.landed(self._realm_name, pointer, len(draft.entries))
        if self._tell is not None:
            self._tell(pointer, draft)
