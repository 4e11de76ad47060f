"""Files of this machine, below one folder.

⚠ No link is followed: folders are opened one by one without following links, and files are removed relative to the folder that
was opened, so a folder that is swapped for a link meanwhile cannot lead out.
"""

from __future__ import annotations

import itertools
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from headwater.schemas.errors import FileMissing, LocationForbidden, RequestTooLarge, StoreUnavailable
from headwater.streaming.files.kinds import FoundFile
from headwater.streaming.files.stores.object_store import Deleted

PAGE_FILES = 1_000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_GONE = (FileNotFoundError, NotADirectoryError)


class LocalFiles:
    batch_max = 1_000

    def list(self, prefix: str) -> Iterator[list[FoundFile]]:
        page: list[FoundFile] = []
        for files in _walk(prefix.rstrip("/"), local_path(prefix)):
            page += files
            if len(page) >= PAGE_FILES:
                yield page
                page = []
        if page:
            yield page

    def folders(self, prefix: str) -> Sequence[str]:
        try:
            with _folder_of(f"{local_path(prefix).rstrip('/')}/_") as (folder, _), os.scandir(folder) as entries:
                return sorted(one.name for one in entries if one.is_dir(follow_symlinks=False))
        except _GONE:
            return []
        except OSError as error:
            raise _unreadable(prefix, error) from error

    def files(self, prefix: str) -> Sequence[FoundFile]:
        location = prefix.rstrip("/")
        try:
            with _folder_of(f"{local_path(prefix).rstrip('/')}/_") as (folder, _), os.scandir(folder) as entries:
                inner = [one for one in entries if one.is_file(follow_symlinks=False)]
                return [_found(f"{location}/{one.name}", one.stat(follow_symlinks=False)) for one in inner]
        except _GONE:
            return []
        except OSError as error:
            raise _unreadable(prefix, error) from error

    def head(self, location: str) -> FoundFile | None:
        try:
            with _folder_of(location) as (folder, name):
                facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if stat.S_ISLNK(facts.st_mode):
                    raise _link(location)
                return _found(location, facts) if stat.S_ISREG(facts.st_mode) else None
        except _GONE:
            return None
        except OSError as error:
            raise _unreadable(location, error) from error

    def read(self, location: str, bytes_max: int) -> bytes:
        try:
            with _folder_of(location) as (folder, name):
                handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            with os.fdopen(handle, "rb") as file:
                if os.fstat(handle).st_size > bytes_max:
                    raise too_large(location, bytes_max)
                return file.read(bytes_max + 1)
        except (*_GONE, IsADirectoryError):
            raise missing(location) from None
        except OSError as error:
            raise _unreadable(location, error) from error

    def write(self, location: str, content: bytes) -> FoundFile:
        """Written under another name first: a reader finds the old file or the new one, whole."""
        try:
            with _folder_of(location, create=True) as (folder, name):
                passing = f".{name}.{secrets.token_hex(4)}"
                handle = os.open(passing, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666, dir_fd=folder)
                with os.fdopen(handle, "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(handle)
                os.replace(passing, name, src_dir_fd=folder, dst_dir_fd=folder)
                return _found(location, os.stat(name, dir_fd=folder, follow_symlinks=False))
        except OSError as error:
            raise StoreUnavailable(f"{location[:200]} cannot be written: {error.strerror}.") from error

    def delete(self, locations: Sequence[str]) -> Deleted:
        gone = 0
        for folder, group in itertools.groupby(locations, lambda one: one.rpartition("/")[0]):
            inner = list(group)
            try:
                gone += _delete_in(inner)
            except _GONE:
                gone += len(inner)
            except OSError as error:
                raise StoreUnavailable(f"files of {folder[:200]} cannot be deleted: {error.strerror}.") from error
        return Deleted(len(locations) - gone, gone)


def local_path(location: str) -> str:
    """The absolute path of `file:/x`, `file:///x` or `/x`."""
    path = location.removeprefix("file:")
    path = "/" + path.lstrip("/")
    if ".." in path.split("/") or "\0" in path:
        raise LocationForbidden(f"{location[:200]!r} is not a plain path.", field="location", remedy="Leave out `..`.")
    return path


def missing(location: str) -> FileMissing:
    return FileMissing(f"there is no file {location[:200]!r}.", field="location", location=location[:1_000])


def too_large(location: str, bytes_max: int) -> RequestTooLarge:
    return RequestTooLarge(f"{location[:200]} has more than {bytes_max} bytes.", field="location")


def _delete_in(locations: Sequence[str]) -> int:
    """Deletes files of one folder, which is opened once. Returns how many were already gone."""
    gone = 0
    with _folder_of(locations[0]) as (folder, _):
        for location in locations:
            try:
                os.unlink(local_path(location).rpartition("/")[2], dir_fd=folder)
            except _GONE:
                gone += 1
    return gone


@contextmanager
def _folder_of(location: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
    """The descriptor of a file's folder, reached without following a link, and the file's name."""
    *folders, name = [part for part in local_path(location).split("/") if part]
    handle = os.open("/", _FOLDER)
    try:
        for folder in folders:
            if create:
                with suppress(FileExistsError):
                    os.mkdir(folder, dir_fd=handle)
            try:
                inner = os.open(folder, _FOLDER, dir_fd=handle)
            except NotADirectoryError:
                if stat.S_ISLNK(os.stat(folder, dir_fd=handle, follow_symlinks=False).st_mode):
                    raise _link(location) from None
                raise
            os.close(handle)
            handle = inner
        yield handle, name
    finally:
        os.close(handle)


def _walk(location: str, path: str) -> Iterator[list[FoundFile]]:
    """Each page has files of one folder."""
    try:
        with _folder_of(f"{path.rstrip('/')}/_") as (folder, _):
            yield from _walk_folder(location, os.dup(folder))
    except _GONE:
        return
    except OSError as error:
        raise _unreadable(location, error) from error


def _walk_folder(location: str, handle: int) -> Iterator[list[FoundFile]]:
    """Takes ownership of the descriptor. ⚠ A folder that vanishes meanwhile is empty; one that cannot be opened is an error."""
    try:
        files: list[FoundFile] = []
        folders: list[str] = []
        for entry in sorted(os.scandir(handle), key=lambda one: one.name):
            try:
                if entry.is_file(follow_symlinks=False):
                    files.append(_found(f"{location}/{entry.name}", entry.stat(follow_symlinks=False)))
                elif entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
            except _GONE:
                continue
            if len(files) >= PAGE_FILES:
                yield files
                files = []
        yield files
        for name in folders:
            with suppress(*_GONE):
                yield from _walk_folder(f"{location}/{name}", os.open(name, _FOLDER, dir_fd=handle))
    finally:
        os.close(handle)


def _found(location: str, facts: os.stat_result) -> FoundFile:
    """⚠ The age counts from the later of the two times: copies keep the old modification time."""
    return FoundFile(location, facts.st_size, max(facts.st_mtime_ns, facts.st_ctime_ns) // 1_000)


def _link(location: str) -> LocationForbidden:
    """⚠ Not "missing": the file may be there, and be listed under the name that the link leads to."""
    return LocationForbidden(
        f"{location[:200]!r} goes through a symbolic link, and links are not followed.",
        field="location",
        remedy="Name the place that the link leads to.",
    )


def _unreadable(location: str, error: OSError) -> StoreUnavailable:
    return StoreUnavailable(f"{location[:200]} cannot be read: {error.strerror}.")
