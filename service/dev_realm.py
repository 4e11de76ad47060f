"""Creates what `--dev` promises: realm `default`, catalog `lake`, branch `main`."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

from headwater.persistence.realms.realms import Realms
from headwater.persistence.store import Store
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.schemas.errors import CatalogNotFound, RealmExists

DEV_REALM = "default"
DEV_CATALOG = "lake"
SQLITE = "sqlite:///"


def ensure_dev_realm(store: Store, store_url: str) -> None:
    """Several processes may do so at once, and again after a crash."""
    realms = Realms(store)
    with contextlib.suppress(RealmExists):
        realms.create(DEV_REALM)
        realms.init(DEV_REALM)
    catalogs = Catalogs(realms.require_active(DEV_REALM))
    try:
        catalogs.get(DEV_CATALOG)
    except CatalogNotFound:
        folder = warehouse_folder(store_url)
        folder.mkdir(parents=True, exist_ok=True)
        catalogs.ensure(DEV_CATALOG, storage_root=folder.as_uri(), meta=CommitMeta("dev", "Make the development catalog"))


def warehouse_folder(store_url: str) -> Path:
    """Beside the store, where that is a file; else in the working folder, and for a store in memory a passing one."""
    if store_url.startswith(SQLITE):
        file = Path(store_url.removeprefix(SQLITE).partition("?")[0])
        return file.resolve().with_name(f"{file.stem}-warehouse")
    if store_url.startswith("memory:"):
        return Path(tempfile.gettempdir()).resolve() / "headwater-warehouse"
    return Path.cwd() / "headwater-warehouse"
