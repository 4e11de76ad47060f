"""`headwater serve`: runs the server until it is stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import rich_click as click

from headwater.cli.maintenance.maintain_output import Amount
from headwater.cli.operation.serve_access import access_settings
from headwater.cli.operation.serve_background import background_settings
from headwater.schemas.extras import needs_extra
from headwater.settings import Settings
from headwater.wiring.maintenance_process import maintenance_beside
from headwater.wiring.stores import shown_url, store_options

if TYPE_CHECKING:
    from headwater.service.config import ServeConfig


@click.command()
@click.option("--store", "store_url", metavar="URL", help="The store, e.g. sqlite:///lake.db.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", default=8181, show_default=True, type=click.IntRange(1, 65535), help="The port to listen on.")
@click.option(
    "--workers", default=1, show_default=True, type=click.IntRange(1, 64), help="Number of processes that serve the store."
)
@click.option(
    "--dev",
    is_flag=True,
    help="For development: creates the store, realm 'default' and catalog 'lake' if they are missing, requires "
    "no token, and serves only this machine.",
)
@click.option("--kafka", "bootstrap", metavar="BOOTSTRAP", help="Also publish to these brokers, like `headwater publish`.")
@click.option(
    "--maintain",
    "maintain_hours",
    metavar="HOURS",
    type=Amount(0),
    help="Also expire, purge and sweep this often, like `headwater maintain schedule`. Default: the setting.",
)
@click.option("--tls-certificate", metavar="FILE", help="Serve over TLS with this certificate and its chain (PEM).")
@click.option("--tls-key", metavar="FILE", help="The key of that certificate (PEM).")
@click.option(
    "--allow-plaintext",
    is_flag=True,
    default=None,
    help="Listen on other than loopback addresses without TLS, behind a proxy with TLS.",
)
@click.option("--seed", is_flag=True, help="Fill the default realm's catalog 'lake' with demo data, once.")
@click.pass_obj
def command(
    settings: Settings,
    store_url: str | None,
    host: str,
    port: int,
    workers: int,
    dev: bool,
    bootstrap: str | None,
    maintain_hours: float | None,
    tls_certificate: str | None,
    tls_key: str | None,
    allow_plaintext: bool | None,
    seed: bool,
) -> None:
    """Serve the feed over HTTP: changes, streams, snapshots, subscriptions, commits.

    Without --dev every request needs a token: `headwater realm init` shows the first client's id and secret.

    Stop it with Ctrl-C or SIGTERM: it finishes accepted requests, and sends every stream the cursor to resume from.
    """
    from headwater.wiring.publishing import publisher_options

    with needs_extra("serving", "service"):
        from headwater.service.auth_factory import check_access
        from headwater.service.config import ServeConfig, check_config
        from headwater.service.observability.audit import audited_services
        from headwater.service.observability.log_files import LogFile
        from headwater.service.server import serve
        from headwater.service.storage.delegation_options import delegation_options
        from headwater.service.storage.storage_options import storage_options
        from headwater.service.storage.storage_roots import storage_roots
    config = check_config(
        ServeConfig(
            store=store_url or settings.store,
            store_options=store_options(settings),
            host=host,
            port=port,
            workers=workers,
            dev=dev,
            feed_cache_bytes=settings.feed_cache_bytes,
            request_bytes_max=settings.request_bytes_max,
            storage=storage_options(
                settings.storage_options,
                settings.storage_client_options,
                tell_secrets=settings.storage_client_secrets,
                delegation=delegation_options(
                    settings.storage_role,
                    settings.storage_role_seconds,
                    settings.storage_sts_endpoint,
                    signs=settings.storage_remote_signing,
                ),
            ),
            storage_roots=storage_roots(settings.storage_roots, dev=dev),
            metadata_copy_bytes_max=settings.metadata_copy_bytes_max,
            manifest_cache_bytes=settings.manifest_cache_bytes,
            nessie_catalog=settings.nessie_catalog,
            heartbeat_seconds=settings.stream_heartbeat_seconds,
            stall_seconds=settings.stream_stall_seconds,
            stop_seconds=settings.stop_seconds,
            log_requests=settings.log_requests,
            log_file=LogFile(path=settings.log_file, bytes_max=settings.log_file_bytes, kept=settings.log_files),
            audited=audited_services(settings.audit_log),
            traces=settings.traces,
            seed=seed,
            **background_settings(settings, dev=dev),
            **access_settings(settings, tls_certificate=tls_certificate, tls_key=tls_key, allow_plaintext=allow_plaintext),
            publisher=None if bootstrap is None else publisher_options(settings, bootstrap),
        )
    )
    check_access(config)
    hours = settings.maintain_hours if maintain_hours is None else maintain_hours
    maintained = msgspec.structs.replace(settings, store=config.store, kafka_bootstrap=bootstrap or settings.kafka_bootstrap)
    with maintenance_beside(maintained, hours):
        serve(config, on_ready=lambda: click.echo(banner(config), err=True))


def banner(config: ServeConfig) -> str:
    """Where everything is, printed when it is there."""
    url = f"{'https' if config.has_tls else 'http'}://{config.host}:{config.port}"
    realm = config.default_realm
    rows = [
        ("feed", f"{url}/feed/v1/{realm}/changes?catalog=lake&branch=main"),
        ("Iceberg REST", f"{url}/iceberg"),
        ("Nessie", f"{url}/api/v2"),
        ("management", f"{url}/manage/v1/{realm}/catalogs"),
        ("OpenAPI", f"{url}/openapi.json"),
        ("all routes", f"{url}/docs"),
        ("metrics", f"{url}/metrics"),
    ]
    if config.grpc_port:
        rows.append(("gRPC", f"{'grpcs' if config.has_tls else 'grpc'}://{config.host}:{config.grpc_port}"))
    who = "no token is asked for, because of --dev" if config.dev else "every request needs a token: `headwater token`"
    links = "\n".join(f"  {name:<13} {link}" for name, link in rows)
    return f"headwater serves {shown_url(config.store)} at {url}/; {who}\n{links}"
