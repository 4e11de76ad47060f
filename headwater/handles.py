"""What the catalogs and references of both engines share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from headwater.engine import References, Snapshot
from headwater.producer.catalogs.catalog_records import Catalog as CatalogInfo
from headwater.producer.commits.catalog_commit import CommitResult
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.pointer_names import ReferenceType
from headwater.producer.references.references import Reference as ReferenceInfo
from headwater.producer.references.references import ReferencePage
from headwater.schemas.change import Change

R = TypeVar("R", bound="ReferenceBase[Any]")
S = TypeVar("S", bound=Snapshot)


class CatalogBase(ABC, Generic[R, S]):
    info: CatalogInfo

    @property
    @abstractmethod
    def references(self) -> References: ...

    @abstractmethod
    def meta(self, author: str | None = None, message: str = "") -> CommitMeta: ...

    @abstractmethod
    def log(self, at: str) -> Iterator[Change]: ...

    @abstractmethod
    def snapshot(self, at: str) -> S: ...

    @abstractmethod
    def _handle(self, info: ReferenceInfo) -> R: ...

    @property
    def name(self) -> str:
        return self.info.name

    def branch(self, name: str | None = None) -> R:
        return self._get(name or self.info.default_branch, ReferenceType.BRANCH)

    def tag(self, name: str) -> R:
        return self._get(name, ReferenceType.TAG)

    def list_references(self, *, token: str | None = None, limit: int = 100, deleted: bool = False) -> ReferencePage:
        return self.references.list(token=token, limit=limit, deleted=deleted)

    def create_branch(self, name: str, at: str | None = None, *, author: str | None = None, message: str = "") -> R:
        self._create(name, at, ReferenceType.BRANCH, self.meta(author, message))
        return self.branch(name)

    def create_tag(self, name: str, at: str | None = None, *, author: str | None = None, message: str = "") -> R:
        self._create(name, at, ReferenceType.TAG, self.meta(author, message))
        return self.tag(name)

    def _create(self, name: str, at: str | None, type: ReferenceType, meta: CommitMeta) -> None:
        self.references.create(name, at or self.info.default_branch, type=type, meta=meta)

    def _get(self, name: str, type: ReferenceType) -> R:
        """Includes deleted ones: their logs can still be read."""
        return self._handle(self.references.get(name, type=type, deleted_ok=True))


class ReferenceBase(Generic[S]):
    def __init__(self, catalog: CatalogBase[Any, S], info: ReferenceInfo) -> None:
        self.name = info.name
        self.type = info.type
        self.pointer = info.pointer
        self._lake = catalog

    def info(self) -> ReferenceInfo:
        return self._lake.references.get(self.name, type=self.type, deleted_ok=True)

    def log(self, at: str | None = None) -> Iterator[Change]:
        return self._lake.log(at or self.name)

    def snapshot(self, at: str | None = None) -> S:
        return self._lake.snapshot(at or self.name)

    def assign(
        self, target: str, *, expected_head: str | None = None, author: str | None = None, message: str = ""
    ) -> CommitResult:
        meta = self._lake.meta(author, message)
        return self._lake.references.assign(self.name, target, type=self.type, expected_head=expected_head, meta=meta)

    def delete(self, *, expected_head: str | None = None, author: str | None = None, message: str = "") -> CommitResult:
        meta = self._lake.meta(author, message)
        return self._lake.references.delete(self.name, type=self.type, expected_head=expected_head, meta=meta)
