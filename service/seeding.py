"""Puts demo data into a store's default realm: tables and a view, statistics, a role that reads them, a policy, a connector.

Each step is known by its request id or says what is there already, so several workers may do it at once and a crash in between
is completed by the next start. What is complete is marked, and never done again: demo tables that were dropped stay dropped.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from headwater.persistence.log.committed_requests import RequestKey
from headwater.persistence.realms.realms import Realms
from headwater.persistence.store import RealmKernel, Store
from headwater.producer.access.grants import catalog_grants
from headwater.producer.access.policies import Policies, Target
from headwater.producer.access.rights import Right
from headwater.producer.access.roles import catalog_roles, principal_roles
from headwater.producer.access.writing import WriteMeta
from headwater.producer.catalogs.catalog_records import Catalog
from headwater.producer.catalogs.catalog_updates import update_catalog
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.schemas.errors import AlreadyExists, Conflict
from headwater.service.dev_realm import DEV_CATALOG, warehouse_folder
from headwater.service.iceberg.operations.key_locks import KeyLocks
from headwater.service.iceberg.operations.lake_branch import CommitAuthor, LakeBranch
from headwater.service.iceberg.operations.lakes import Lakes
from headwater.service.iceberg.operations.namespaces import create_namespace
from headwater.service.iceberg.operations.tables import TableCreation, create_table
from headwater.service.storage.storage_options import StorageOptions

AUTHOR = "seed"
SEEDED = "headwater.seeded"
"""Property of the catalog once everything is there."""
NAMESPACE = ("demo",)
ORDERS = (*NAMESPACE, "orders")
READERS, ROLE, POLICY = "demo-readers", "demo-reader", "demo-retention"
VIEW = "revenue"
VIEW_SQL = "SELECT customer_id, sum(amount) AS revenue FROM orders GROUP BY customer_id"
TABLES = {
    "customers": {"id": "long", "name": "string", "since": "date"},
    "orders": {"id": "long", "customer_id": "long", "amount": "decimal(12, 2)", "placed_at": "timestamptz"},
    "order_lines": {"order_id": "long", "line": "int", "item": "string", "quantity": "int"},
}


def seed(store: Store, store_url: str, realm: str, storage: StorageOptions | None = None) -> bool:
    """Whether anything was to do."""
    kernel = Realms(store).require_active(realm)
    catalog = _catalog(kernel, store_url)
    if SEEDED in catalog.properties:
        return False
    _fill(kernel, catalog, Lakes(storage))
    _add_contents(kernel, catalog, Lakes(storage), warehouse_folder(store_url))
    _let_in(kernel, catalog)
    meta = WriteMeta(AUTHOR, "Mark the demo data as complete", request_id="headwater.seed.done")
    update_catalog(kernel, catalog.name, properties={**catalog.properties, SEEDED: "1"}, meta=meta)
    return True


def _catalog(kernel: RealmKernel, store_url: str) -> Catalog:
    folder = warehouse_folder(store_url)
    folder.mkdir(parents=True, exist_ok=True)
    meta = CommitMeta(AUTHOR, "Make the catalog of the demo data")
    return Catalogs(kernel).ensure(DEV_CATALOG, storage_root=folder.as_uri(), meta=meta)


def _fill(kernel: RealmKernel, catalog: Catalog, lakes: Lakes) -> None:
    branch = _branch(kernel, catalog, lakes)
    with contextlib.suppress(AlreadyExists):
        create_namespace(branch, _caller("namespace"), NAMESPACE, {"comment": "Demo data"})
    for name, columns in TABLES.items():
        fields = [
            {"id": number, "name": column, "type": type, "required": number == 1}
            for number, (column, type) in enumerate(columns.items(), 1)
        ]
        wanted = TableCreation(name=name, schema={"type": "struct", "fields": fields})
        with contextlib.suppress(AlreadyExists):
            create_table(branch, _caller(name), (*NAMESPACE, name), wanted)


def _add_contents(kernel: RealmKernel, catalog: Catalog, lakes: Lakes, warehouse: Path) -> None:
    """Rows, a view on them, their statistics, and a source to follow."""
    from headwater.service import demo_contents  # loads PyIceberg, which other starts do not need

    branch = _branch(kernel, catalog, lakes)
    with contextlib.suppress(Conflict):  # another worker was faster
        demo_contents.add_orders(branch, CommitAuthor(AUTHOR), ORDERS)
    with contextlib.suppress(AlreadyExists):
        columns = {"customer_id": "long", "revenue": "decimal(22, 2)"}
        demo_contents.add_view(branch, _caller(VIEW), (*NAMESPACE, VIEW), VIEW_SQL, columns)
    demo_contents.publish_statistics(branch, lakes, ORDERS, WriteMeta(AUTHOR))
    with contextlib.suppress(AlreadyExists):
        folder = warehouse.with_name(f"{warehouse.name}-partner")
        demo_contents.add_paused_connector(branch, folder, WriteMeta(AUTHOR))


def _branch(kernel: RealmKernel, catalog: Catalog, lakes: Lakes) -> LakeBranch:
    return LakeBranch(kernel, catalog, "", lakes.metadata_of(catalog), KeyLocks())


def _let_in(kernel: RealmKernel, catalog: Catalog) -> None:
    meta = WriteMeta(AUTHOR)
    with contextlib.suppress(AlreadyExists):
        principal_roles(kernel).create(READERS, meta=meta)
    with contextlib.suppress(AlreadyExists):
        catalog_roles(kernel, catalog.id).create(ROLE, meta=meta)
    catalog_roles(kernel, catalog.id).assign(READERS, ROLE, meta=meta)
    catalog_grants(kernel, catalog.id).grant(ROLE, Right.CATALOG_READ, meta=meta)
    with contextlib.suppress(AlreadyExists):
        Policies(kernel).create(POLICY, type="retention", content={"days": 30}, meta=meta)
    Policies(kernel).attach(POLICY, Target(catalog.id, NAMESPACE), meta=meta)


def _caller(what: str) -> CommitAuthor:
    return CommitAuthor(AUTHOR, RequestKey(f"headwater.seed.{what}"))
