"""Files on S3, Google Cloud Storage and Azure, by obstore.

⚠ obstore refuses keys with `//` or `..` and ends the whole listing at the first one. Such a listing raises here: it is never
taken as complete. ⚠ A bulk deletion with one failing key raises one error that names none: the caller halves the batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from headwater.schemas.errors import LocationForbidden, StorageDenied, StoreUnavailable, Unsupported
from headwater.schemas.extras import needs_extra
from headwater.streaming.files.kinds import FoundFile
from headwater.streaming.files.stores.local_files import missing, too_large
from headwater.streaming.files.stores.object_store import Deleted
from headwater.streaming.files.stores.store_options import allows_http, obstore_config

if TYPE_CHECKING:
    from obstore.store import AzureStore, GCSStore, S3Store

PAGE_FILES = 1_000
CONNECT_SECONDS, REQUEST_SECONDS = 5, 60
BATCH_MAX = {"s3": 1_000, "azure": 256, "gcs": 100}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class RemoteStore:
    """One bucket or container."""

    def __init__(self, vendor: str, root: str, bucket: str, options: Mapping[str, str]) -> None:
        self._root = root
        self._store = _open(vendor, bucket, options)
        self.batch_max = BATCH_MAX[vendor]

    def list(self, prefix: str) -> Iterator[list[FoundFile]]:
        key = self._key(prefix.rstrip("/"), may_be_root=True)
        with _storage_errors(prefix):
            for page in self._store.list(prefix=key or None, chunk_size=PAGE_FILES):
                yield [self._found(one) for one in page]

    def folders(self, prefix: str) -> Sequence[str]:
        key = self._key(prefix.rstrip("/"), may_be_root=True)
        with _storage_errors(prefix):
            found = self._store.list_with_delimiter(prefix=key or None)
        return sorted(one.rstrip("/").rpartition("/")[2] for one in found["common_prefixes"])

    def files(self, prefix: str) -> Sequence[FoundFile]:
        key = self._key(prefix.rstrip("/"), may_be_root=True)
        with _storage_errors(prefix):
            found = self._store.list_with_delimiter(prefix=key or None)
        return [self._found(one) for one in found["objects"]]

    def head(self, location: str) -> FoundFile | None:
        try:
            with _storage_errors(location):
                return self._found(self._store.head(self._key(location)))
        except FileNotFoundError:
            return None

    def read(self, location: str, bytes_max: int) -> bytes:
        try:
            with _storage_errors(location):
                got = self._store.get(self._key(location))
                if got.meta["size"] > bytes_max:
                    raise too_large(location, bytes_max)
                return bytes(got.bytes())
        except FileNotFoundError:
            raise missing(location) from None

    def write(self, location: str, content: bytes) -> FoundFile:
        with _storage_errors(location):
            self._store.put(self._key(location), content)
        found = self.head(location)
        if found is None:
            raise StoreUnavailable(f"{location[:200]} was written and is not there.")
        return found

    def delete(self, locations: Sequence[str]) -> Deleted:
        keys = [self._key(location) for location in locations]
        try:
            with _storage_errors(locations[0]):
                self._store.delete(keys)
        except FileNotFoundError:  # storage without bulk deletion reports the first that is gone
            if len(keys) > 1:
                raise StoreUnavailable(f"a file beside {locations[0][:200]} is gone.") from None
            return Deleted(0, 1)
        return Deleted(len(keys))

    def _key(self, location: str, *, may_be_root: bool = False) -> str:
        key = location.removeprefix(self._root).removeprefix("/") if location.startswith(self._root) else ""
        if not key and not may_be_root:
            raise LocationForbidden(f"{location[:200]!r} names no file of {self._root}.", field="location")
        if (key and "//" in f"/{key}/") or ("/." in f"/{key}" and {".", ".."} & set(key.split("/"))):
            raise Unsupported(
                f"{location[:200]!r} has an empty or relative segment, which this storage client cannot name.",
                field="location",
                remedy="Delete it with the vendor's own tools.",
            )
        return key

    def _found(self, one: Mapping[str, Any]) -> FoundFile:
        modified = one["last_modified"]
        micros = (modified - _EPOCH) // _MICROSECOND if modified is not None else None
        return FoundFile(f"{self._root}/{one['path']}", one["size"], micros or None, one["e_tag"])


def _open(vendor: str, bucket: str, options: Mapping[str, str]) -> S3Store | GCSStore | AzureStore:
    with needs_extra("Object storage", "files"):
        from obstore.store import AzureStore, GCSStore, S3Store
    config = obstore_config(vendor, options)
    client = {
        "allow_http": allows_http(config),
        "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
        "timeout": timedelta(seconds=REQUEST_SECONDS),
    }
    retries = {"max_retries": 0, "retry_timeout": timedelta(seconds=REQUEST_SECONDS)}  # ours: one batch, one request
    opened: Any = {"s3": S3Store, "gcs": GCSStore, "azure": AzureStore}[vendor]
    try:
        store: S3Store | GCSStore | AzureStore = opened(bucket, config=config, client_options=client, retry_config=retries)
    except Exception as error:
        raise StoreUnavailable(f"the storage of {bucket} cannot be opened: {_reason(error)}.") from None
    return store


@contextmanager
def _storage_errors(location: str) -> Iterator[None]:
    """Turns the client's errors into ours. `FileNotFoundError` passes, because its meaning depends on the call."""
    from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

    try:
        yield
    except (PermissionError, PermissionDeniedError, UnauthenticatedError) as error:
        raise StorageDenied(
            f"the storage of {location[:200]} refuses access: {_reason(error)}.",
            field="storage_options",
            remedy="Check the credentials and what they are allowed to do.",
        ) from None
    except BaseError as error:
        raise StoreUnavailable(f"{location[:200]}: {_reason(error)}.") from None


def _reason(error: BaseException) -> str:
    """⚠ Only the first line: what follows may contain the request with its headers."""
    return str(error).strip().partition("\n")[0][:300].rstrip(".")
