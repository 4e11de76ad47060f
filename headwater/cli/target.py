"""Where a command works: the flags for server, realm and catalog, and what they open. This is the only place that decides.

With a server, commands go through its API with the caller's rights. Without one they open the store itself, without checking
rights, and say so on stderr.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import rich_click as click
from rich.console import Console

from headwater.persistence.rows import SYSTEM_REALM
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import InvalidInput
from headwater.settings import Settings
from headwater.wiring.stores import opened_store, shown_url

if TYPE_CHECKING:
    from headwater.client.remote_logs import RemoteLogs
    from headwater.embedded import RealmHandle
    from headwater.engine import Catalog, Realm
    from headwater.local_logs import LocalLogs
    from headwater.manage import ManagedRealm, ManagedRealms
    from headwater.persistence.store import Store

F = TypeVar("F", bound=Callable[..., Any])

author = click.option("--author", metavar="NAME", help="The author. Default: you. A server uses its caller.")
message = click.option("-m", "--message", metavar="TEXT", default="", help="Why.")
expected_head = click.option("--expected-head", metavar="COMMIT", help="Refuse unless the branch is at this commit.")


# ── flags ───────────────────────────────────────────────────────────────────────────────────────────────────


def _setting(name: str) -> Callable[[click.Context, click.Parameter, str | None], None]:
    def replace(context: click.Context, _: click.Parameter, value: str | None) -> None:
        settings = context.find_object(Settings)
        if value is not None and settings is not None:
            context.obj = msgspec.structs.replace(settings, **{name: value})

    return replace


def at_server(function: F) -> F:
    """`--server` and `--ca`; the token and the client's secret are settings, because other users can see a command line."""
    server = click.option(
        "--server",
        metavar="URL",
        expose_value=False,
        callback=_setting("server"),
        help="Use this server, e.g. http://127.0.0.1:8181, instead of opening the store.",
    )
    ca = click.option(
        "--ca",
        metavar="FILE",
        expose_value=False,
        callback=_setting("server_ca"),
        help="Certificates to trust for that server (PEM).",
    )
    return server(ca(function))


in_store_realm = click.option("--realm", default="default", show_default=True, help="The realm.")
"""For commands that always open the store."""


def in_realm(function: F) -> F:
    return in_store_realm(at_server(function))


def in_catalog(function: F) -> F:
    with_catalog = click.option("--catalog", default="lake", show_default=True, help="The catalog.")
    return in_realm(with_catalog(function))


# ── what they open ──────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def realm_of(settings: Settings, realm: str) -> Iterator[Realm]:
    if settings.server:
        from headwater.wiring.servers import connected

        with connected(settings) as remote:
            yield remote.realm(realm)
    else:
        with store_realm(settings, realm) as local:
            yield local


@contextmanager
def catalog_of(settings: Settings, realm: str, catalog: str) -> Iterator[Catalog]:
    with realm_of(settings, realm) as handle:
        yield handle.catalog(catalog)


@contextmanager
def managed_realm(settings: Settings, realm: str, author: str | None = None) -> Iterator[ManagedRealm]:
    """The records of an ACTIVE realm, or of the system."""
    if settings.server:
        from headwater.wiring.servers import connected

        with connected(settings) as remote:
            yield remote.manage(realm)
        return
    from headwater.embedded import commit_meta
    from headwater.local_manage import LocalManage
    from headwater.persistence.realms.realms import Realms

    with direct_store(settings) as store:
        kernel = store.system if realm == SYSTEM_REALM else Realms(store).require_active(realm)
        yield LocalManage(kernel, commit_meta(author).author)


@contextmanager
def managed_realms(settings: Settings) -> Iterator[ManagedRealms]:
    if settings.server:
        from headwater.wiring.servers import connected

        with connected(settings) as remote:
            yield remote.manage_realms()
        return
    from headwater.embedded import commit_meta
    from headwater.local_manage import LocalRealms

    with direct_store(settings) as store:
        yield LocalRealms(store, commit_meta(None).author)


@contextmanager
def store_realm(settings: Settings, realm: str) -> Iterator[RealmHandle]:
    """For commands that need the store itself."""
    from headwater.embedded import Headwater

    with direct_store(settings) as store:
        engine = Headwater(store)
        try:
            yield engine.realm(realm)
        finally:
            engine.stop_watching()


@contextmanager
def store_logs(settings: Settings, realm: str) -> Iterator[LocalLogs]:
    """The logs of an ACTIVE realm or of `::system::`, in the store itself."""
    from headwater.embedded import Headwater

    with direct_store(settings) as store:
        engine = Headwater(store)
        try:
            yield engine.system_logs() if realm == SYSTEM_REALM else engine.realm(realm).logs
        finally:
            engine.stop_watching()


@contextmanager
def logs_of(settings: Settings, realm: str) -> Iterator[LocalLogs | RemoteLogs]:
    if settings.server:
        from headwater.wiring.servers import connected

        with connected(settings) as remote:
            yield remote.system_logs() if realm == SYSTEM_REALM else remote.realm(realm).logs
    else:
        with store_logs(settings, realm) as local:
            yield local


@contextmanager
def the_store(settings: Settings, *, create: bool = False) -> Iterator[Store]:
    """For commands that work on the store alone. ⚠ With a server named, they would work on the wrong store."""
    context = click.get_current_context(silent=True)
    if context is not None and context.find_root().params.get("server"):
        raise InvalidInput(
            "this command works on the store itself.", field="--server", remedy="Leave it out, and name the store with --store."
        )
    with opened_store(settings, create=create) as store:
        yield store


@contextmanager
def direct_store(settings: Settings) -> Iterator[Store]:
    """The store itself. Said at the end of what worked, so that an error stays one line."""
    with the_store(settings) as store:
        yield store
    note = f"opened {shown_url(settings.store)} directly, without checking rights; --server goes through a server"
    Console(stderr=True, soft_wrap=True, highlight=False, style="dim").print(note, markup=False)


# ── keys ────────────────────────────────────────────────────────────────────────────────────────────────────


def key_text(key: KeyPath) -> str:
    """A key for people; machines take it from JSON."""
    return ".".join(key)


def key_of(text: str) -> KeyPath:
    return tuple(text.split(".")) if text else ()
