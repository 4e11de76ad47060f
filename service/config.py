"""The configuration of `headwater serve` that every worker starts from."""

from __future__ import annotations

import ssl
from pathlib import Path

import msgspec

from headwater.persistence.records.secret_hashes import ScryptCost
from headwater.persistence.store import StoreOptions
from headwater.producer.plans.plan_rows import PlanOptions
from headwater.producer.publisher.options import PublisherOptions
from headwater.schemas.errors import InvalidInput
from headwater.service.http.loopback import is_loopback
from headwater.service.idempotency.expiry import CleaningOptions
from headwater.service.idempotency.run_once import IdempotencyOptions
from headwater.service.observability.log_files import LogFile, check_log_file
from headwater.service.reconciling.source_factories import ReconcileOptions
from headwater.service.storage.storage_options import StorageOptions
from headwater.service.storage.storage_roots import StorageRoots
from headwater.service.usage.measurement import MeasuringOptions


class ServeConfig(msgspec.Struct, frozen=True, kw_only=True):
    store: str
    store_options: StoreOptions
    host: str = "127.0.0.1"
    port: int = 8181
    workers: int = 1
    dev: bool = False
    feed_cache_bytes: int = 64 * 1024 * 1024
    request_bytes_max: int = 16 * 1024 * 1024
    metadata_copy_bytes_max: int = 131_072
    manifest_cache_bytes: int = 134_217_728
    """Cache size for metadata files in remote storage; 0 keeps no copies."""
    nessie_catalog: str = "lake"
    """What `/api/v2` is of; others have paths of their own."""
    heartbeat_seconds: float = 15.0
    stall_seconds: float = 30.0
    storage: StorageOptions = StorageOptions()
    storage_roots: StorageRoots = StorageRoots()
    """Which storage roots requests may give catalogs."""
    stop_seconds: int = 20
    """How long a stopping worker may take to finish what it has accepted."""
    log_requests: bool = False
    log_file: LogFile = LogFile()
    audited: frozenset[str] = frozenset()
    """Services whose calls leave an audit line."""
    traces: str = ""
    publisher: PublisherOptions | None = None
    """Where each worker publishes to Kafka beside the feed; None leaves that to `headwater publish`."""
    idempotency: IdempotencyOptions = IdempotencyOptions()
    idempotency_cleaning: CleaningOptions = CleaningOptions()
    plans: PlanOptions = PlanOptions()
    usage: MeasuringOptions = MeasuringOptions()
    reconcile: ReconcileOptions = ReconcileOptions()
    seed: bool = False
    """Fill the default realm with demo data, once."""
    messages_dir: str = ""
    """More languages for error messages, one file each."""
    workers_folder: str | None = None
    """Where workers exchange numbers and hand commits over; private to this server. None with a single worker."""
    default_realm: str = "default"
    """For requests whose path, header and token name no realm."""
    principal_provider: str = "tokens"
    authorizer: str = "records"
    token_seconds: int = 3_600
    token_key_days: int = 30
    oidc_config: str = ""
    rate_limit_per_second: float = 0.0
    rate_limit_burst: float = 0.0
    tls_certificate: str = ""
    tls_key: str = ""
    tls_key_password: str = ""
    allow_plaintext: bool = False
    metrics_token: str = ""
    grpc_port: int = 0
    """0 opens none."""
    grpc_message_bytes_max: int = 4 * 1024 * 1024
    grpc_reflection: bool = True
    grpc_connection_seconds: int = 600
    grpc_client_ca: str = ""
    grpc_trusted_peers: frozenset[str] = frozenset()
    """Subject alternative names of clients that may name the principal that they act for."""
    directory_bytes: int = 128 * 1024 * 1024
    secret_cost: ScryptCost = ScryptCost()
    """The cost of comparing a secret with a dummy: the same as with a real one."""

    @property
    def has_tls(self) -> bool:
        return bool(self.tls_certificate)


def check_config(config: ServeConfig) -> ServeConfig:
    """Everything that can be refused before a socket is opened."""
    if config.dev and not is_loopback(config.host):
        raise InvalidInput(
            f"{config.host!r} is not a loopback address, and --dev asks for no token.",
            field="host",
            remedy="Use 127.0.0.1 or ::1.",
        )
    if bool(config.tls_certificate) != bool(config.tls_key):
        raise InvalidInput("a certificate comes with its key.", field="tls_key", remedy="Name both files, or none.")
    for field, file in (("tls_certificate", config.tls_certificate), ("tls_key", config.tls_key)):
        if file and not Path(file).is_file():
            raise InvalidInput(f"{file!r} is not a file.", field=field, remedy="Name a PEM file.")
    if config.has_tls:
        _check_tls(config)
    if not (is_loopback(config.host) or config.has_tls or config.allow_plaintext):
        raise InvalidInput(
            f"{config.host!r} would be served without TLS, and tokens could be read on the way.",
            field="host",
            remedy="Name tls_certificate and tls_key, or say --allow-plaintext where a proxy in front does TLS.",
        )
    if config.grpc_port:
        _check_grpc(config)
    check_log_file(config.log_file)
    if config.workers > 1 and config.store.startswith("memory:"):
        raise InvalidInput(
            "processes do not share a store in memory.", field="workers", remedy="Use one worker, or another store."
        )
    return config


def _check_grpc(config: ServeConfig) -> None:
    if config.grpc_port == config.port:
        raise InvalidInput("it is the port of HTTP too.", field="grpc_port", remedy="Choose another one.")
    if not config.grpc_client_ca:
        if config.grpc_trusted_peers:
            raise InvalidInput(
                "peers are known by the certificates that they show.", field="grpc_trusted_peers", remedy="Name grpc_client_ca."
            )
        return
    if not config.has_tls:
        raise InvalidInput("clients show certificates over TLS alone.", field="grpc_client_ca", remedy="Name tls_certificate.")
    if not Path(config.grpc_client_ca).is_file():
        raise InvalidInput(f"{config.grpc_client_ca!r} is not a file.", field="grpc_client_ca", remedy="Name a PEM file.")


def _check_tls(config: ServeConfig) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:  # with a password in any case: without one it would ask the terminal
        context.load_cert_chain(config.tls_certificate, config.tls_key, lambda: config.tls_key_password)
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"certificate and key cannot be used: {error.__class__.__name__}.",
            field="tls_certificate",
            remedy="Name PEM files that belong together, and tls_key_password if the key has one.",
        ) from error
