"""Decides what a writer commits in each step. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from headwater.producer.commits.operations import CatalogOperation, Delete, Put, Rename
from headwater.producer.content.content_types import IcebergTable, Namespace
from headwater.schemas.change import KeyPath

SHARED: KeyPath = ("shared", "totals")
"""The table that all writers evolve, each from what it has read, so that they conflict."""

Tables = Mapping[KeyPath, int]
"""Live tables of one writer, with their snapshot ids."""


class WorkloadStep(StrEnum):
    CREATE = "create"
    EVOLVE = "evolve"
    SHARE = "share"
    RENAME = "rename"
    DROP = "drop"
    BRANCH = "branch"


SCENES = (
    WorkloadStep.CREATE,
    WorkloadStep.EVOLVE,
    WorkloadStep.SHARE,
    WorkloadStep.CREATE,
    WorkloadStep.RENAME,
    WorkloadStep.BRANCH,
    WorkloadStep.DROP,
    WorkloadStep.EVOLVE,
)


def workload_step(step: int) -> WorkloadStep:
    return SCENES[step % len(SCENES)]


def table(key: KeyPath, snapshot_id: int) -> IcebergTable:
    location = f"s3://lake/{'/'.join(key)}/metadata/{snapshot_id:05d}.metadata.json"
    return IcebergTable(location, snapshot_id=snapshot_id, schema_id=0, spec_id=0, sort_order_id=0)


def create(namespace: str, step: int, tables_at_once: int) -> list[CatalogOperation]:
    """The first step also creates the namespace in which they live."""
    made: list[CatalogOperation] = [Put((namespace,), Namespace())] if step == 0 else []
    keys = [(namespace, f"orders_{step:02d}_{n:02d}") for n in range(tables_at_once)]
    return [*made, *(Put(key, table(key, 1)) for key in keys)]


def evolve(tables: Tables, step: int) -> list[CatalogOperation]:
    key = _pick(tables, step)
    return [Put(key, table(key, tables[key] + 1))]


def rename(tables: Tables, step: int) -> list[CatalogOperation]:
    key = _pick(tables, step)
    return [Rename(key, (key[0], f"renamed_{step:02d}"))]


def drop(tables: Tables, step: int) -> list[CatalogOperation]:
    return [Delete(_pick(tables, step))]


def on_a_branch(namespace: str, tables: Tables, step: int) -> Sequence[list[CatalogOperation]]:
    """Two commits that appear on main as one, through a merge."""
    staged = (namespace, f"staged_{step:02d}")
    return [[Put(staged, table(staged, 1))], [Put(staged, table(staged, 2)), *evolve(tables, step)]]


def branch_name(namespace: str, step: int) -> str:
    return f"{namespace}/step-{step:02d}"


def _pick(tables: Tables, step: int) -> KeyPath:
    keys = sorted(tables)
    return keys[step * 7 % len(keys)]
