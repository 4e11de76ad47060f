"""`headwater connector`: keeps connectors, which bridge other catalogs into this one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import rich_click as click

from headwater.cli.access.record_commands import (
    RealmTarget,
    RecordTable,
    properties,
    properties_of,
    properties_text,
    reads_realm,
    writes_realm,
)
from headwater.cli.output import confirmed, print_json, show_done, yes
from headwater.cli.target import direct_store, key_of, key_text
from headwater.manage import ManagedConnectors
from headwater.schemas.http.connector_json import ConnectorBody, ConnectorChange, ConnectorInfo, JobInfo

CONNECTORS = RecordTable[ConnectorInfo](
    "connectors",
    ["connector", "source", "uri", "into", "status", "every"],
    lambda one: (
        one.name,
        one.source,
        one.uri,
        f"{one.catalog}:{one.branch} {key_text(tuple(one.path))}".strip(),
        one.status,
        f"{one.interval_seconds} s",
    ),
)
JOBS = RecordTable[JobInfo](
    "jobs",
    ["job", "state", "scope", "created", "ended", "counters", "error"],
    lambda one: (
        one.id,
        one.state,
        " ".join(key_text(tuple(path)) for path in one.scope),
        one.created,
        one.ended or "",
        properties_text({name: str(count) for name, count in one.counters.items() if count}),
        one.error,
    ),
)


@contextmanager
def managed_connectors(at: RealmTarget) -> Iterator[ManagedConnectors]:
    settings = at.settings
    if settings.server:
        from headwater.wiring.servers import connected

        with connected(settings) as remote:
            yield remote.connectors(at.realm)
        return
    from headwater.cli.connectors.local_connectors import LocalConnectors
    from headwater.embedded import commit_meta
    from headwater.persistence.realms.realms import Realms

    with direct_store(settings) as store:
        yield LocalConnectors(Realms(store).require_active(at.realm), settings, commit_meta(at.author).author)


@click.group()
def command() -> None:
    """Bridge other catalogs (Iceberg REST, Nessie, Hive, Delta, another Headwater) into a branch, commit by commit."""


@command.command()
@click.argument("name")
@click.option("--source", required=True, metavar="KIND", help="iceberg-rest, nessie, headwater, delta, hive, or a plug-in's.")
@click.option("--uri", required=True, metavar="URL", help="Address of the source.")
@click.option(
    "--root", "roots", metavar="URL", multiple=True, required=True, help="Where its tables' files may be; may be repeated."
)
@click.option("--catalog", default="lake", show_default=True, help="The catalog to commit to.")
@click.option("--branch", default="", help="Its branch. Default: the catalog's default branch.")
@click.option("--path", "path_text", metavar="a.b", default="", help="Everything below this path belongs to the connector.")
@click.option("--secret-ref", default="", metavar="NAME", help="A file in the realm's folder of connector_secrets_dir.")
@click.option(
    "--every", "interval_seconds", default=30, show_default=True, metavar="SECONDS", help="How often the source is read."
)
@click.option("--description", default="", help="What it is for.")
@click.option("--paused", is_flag=True, help="Do not start yet.")
@properties
@writes_realm
def add(
    at: RealmTarget,
    name: str,
    source: str,
    uri: str,
    roots: Sequence[str],
    catalog: str,
    branch: str,
    path_text: str,
    secret_ref: str,
    interval_seconds: int,
    description: str,
    paused: bool,
    assignments: Sequence[str],
) -> None:
    """Add a connector."""
    body = ConnectorBody(
        name=name,
        source=source,
        uri=uri,
        properties=properties_of(assignments),
        secret_ref=secret_ref,
        roots=list(roots),
        catalog=catalog,
        branch=branch,
        path=list(key_of(path_text)),
        interval_seconds=interval_seconds,
        description=description,
        paused=paused,
    )
    with managed_connectors(at) as manage:
        made = manage.add(body)
    CONNECTORS.show(made, at.json_output)


@command.command("list")
@reads_realm
def list_all(at: RealmTarget) -> None:
    """Show the connectors, in order of name."""
    with managed_connectors(at) as manage:
        found = manage.connectors()
    CONNECTORS.show_all(found, at.json_output)


@command.command()
@click.argument("name")
@reads_realm
def show(at: RealmTarget, name: str) -> None:
    """Show one connector."""
    with managed_connectors(at) as manage:
        found = manage.connector(name)
    CONNECTORS.show(found, at.json_output)


@command.command()
@click.argument("name")
@reads_realm
def validate(at: RealmTarget, name: str) -> None:
    """Reach the source and read one page of it."""
    with managed_connectors(at) as manage:
        found = manage.validate(name)
    how = "followed commit by commit" if found.has_log else "polled"
    if at.json_output:
        print_json(found)
    else:
        show_done(f"{name} reaches its {found.source} source, which is {how}", {}, False)


@command.command()
@click.argument("name")
@click.option("--full-rescan", is_flag=True, help="Compare the whole state, whatever the position.")
@click.option(
    "--scope",
    "scopes",
    metavar="a.b",
    multiple=True,
    help="Only this namespace or table below the connector's path, with all below it; may be repeated. "
    "Only for sources that are polled.",
)
@writes_realm
def reconcile(at: RealmTarget, name: str, full_rescan: bool, scopes: Sequence[str]) -> None:
    """Queue a reconcile job; a server or `headwater reconcile` runs it."""
    with managed_connectors(at) as manage:
        job = manage.reconcile(name, full_rescan=full_rescan, scope=[key_of(one) for one in scopes])
    JOBS.show(job, at.json_output)


@command.command()
@click.argument("name")
@click.option("--cancel", "cancelled", metavar="JOB", help="Cancel this job instead.")
@reads_realm
def jobs(at: RealmTarget, name: str, cancelled: str | None) -> None:
    """Show the reconcile jobs of a connector, newest first."""
    with managed_connectors(at) as manage:
        found = manage.jobs(name) if cancelled is None else [manage.cancel(name, cancelled)]
    JOBS.show_all(found, at.json_output)


@command.command()
@click.argument("name")
@click.option("--resume", is_flag=True, help="Continue instead.")
@writes_realm
def pause(at: RealmTarget, name: str, resume: bool) -> None:
    """Stop reading the source, or continue with --resume. The connector still owns its destination."""
    with managed_connectors(at) as manage:
        written = manage.change(name, ConnectorChange(status="ACTIVE" if resume else "PAUSED"))
    CONNECTORS.show(written, at.json_output)


@command.command()
@click.argument("name")
@yes
@writes_realm
def remove(at: RealmTarget, name: str, yes: bool) -> None:
    """Remove a connector. What it committed stays."""
    confirmed(f"Remove connector {name} of realm {at.realm}?", yes)
    with managed_connectors(at) as manage:
        manage.remove(name)
    show_done(f"connector {name} is removed", {"removed": name}, at.json_output)
