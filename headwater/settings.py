"""Reads settings from flags, HEADWATER_* variables and a TOML file, in that order of precedence, and checks them.

This is the only list of settings: docs/settings.md is compared with it by a test.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, get_args, get_type_hints

import msgspec
from msgspec import Meta

from headwater.schemas.errors import InvalidInput

ENV_PREFIX = "HEADWATER_"
CONFIG_FILE = "headwater.toml"
"""Read from the working folder when no other file is named."""


def _home(*parts: str) -> str:
    return str(Path.home().joinpath(*parts))


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    store: Annotated[str, Meta(description="The store: memory://, sqlite:///path, postgresql://… or cassandra://…")] = (
        "sqlite:///headwater.db"
    )
    durability: Annotated[
        Literal["warn", "refuse"],
        Meta(description="What to do when the live server's settings could lose acknowledged commits"),
    ] = "warn"
    cache_bytes: Annotated[int, Meta(ge=0, description="Upper bound of the object cache, in bytes")] = 256 * 1024 * 1024
    commit_attempts_max: Annotated[
        int, Meta(ge=1, description="How often a commit is tried when other processes keep committing first")
    ] = 200
    commit_retry_seconds: Annotated[
        float, Meta(gt=0, description="How long a commit is tried, in seconds, before the request fails as retriable")
    ] = 15.0
    commit_first_wait_seconds: Annotated[
        float,
        Meta(gt=0, le=60, description="The first wait after a lost attempt, in seconds; it doubles with each further one"),
    ] = 0.002
    commit_longest_wait_seconds: Annotated[
        float, Meta(gt=0, le=60, description="The longest wait between two attempts of a commit, in seconds")
    ] = 0.25
    commit_decide_seconds: Annotated[
        float,
        Meta(gt=0, description="How long the outcome of a commit without an answer is looked up, in seconds"),
    ] = 30.0
    request_id_days: Annotated[
        float,
        Meta(
            ge=7, le=3_650, description="How long a request id is known, gets its first answer again and is not committed twice"
        ),
    ] = 7.0
    poll_seconds: Annotated[
        float, Meta(gt=0, le=60, description="How soon commits of other processes are noticed, in seconds")
    ] = 0.1
    node_lease_seconds: Annotated[int, Meta(ge=10, description="How long a node id is leased, in seconds")] = 3600
    feed_cache_bytes: Annotated[
        int,
        Meta(
            ge=0,
            description="Upper bound of a server's cache of encoded entries, in bytes; gRPC streams may keep as much again",
        ),
    ] = 64 * 1024 * 1024
    request_bytes_max: Annotated[
        int, Meta(ge=1_024, description="The largest request body that a server accepts, in bytes")
    ] = 16 * 1024 * 1024
    storage_options: Annotated[
        str,
        Meta(description="Options for reading table metadata, separated by blanks: s3.endpoint=http://… s3.region=eu-west-1"),
    ] = ""
    storage_client_options: Annotated[
        str, Meta(description="Options sent to Iceberg clients with a table, separated by blanks: s3.region=eu-west-1")
    ] = ""
    storage_roots: Annotated[
        str,
        Meta(
            description="Where requests may place catalogs, separated by blanks: s3://lake/ file:///srv/lake; "
            "empty: any object store, no local files"
        ),
    ] = ""
    storage_client_secrets: Annotated[
        bool,
        Meta(description="Whether storage_client_options may contain keys, which every client that loads a table then gets"),
    ] = False
    storage_role: Annotated[
        str,
        Meta(description="The AWS role assumed for each table to give clients short-lived credentials; empty: none"),
    ] = ""
    storage_role_seconds: Annotated[
        int, Meta(ge=900, le=43_200, description="How long credentials for clients are valid, in seconds")
    ] = 3_600
    storage_sts_endpoint: Annotated[str, Meta(description="Address of STS; empty: that of AWS for the region")] = ""
    storage_remote_signing: Annotated[
        bool, Meta(description="Whether the server signs single S3 requests of clients that ask for remote signing")
    ] = False
    metadata_copy_bytes_max: Annotated[
        int,
        Meta(
            ge=0,
            le=300_000,
            description="The largest compressed metadata file that a server keeps a copy of in the store, in bytes; 0: none",
        ),
    ] = 131_072
    nessie_catalog: Annotated[str, Meta(description="The catalog that a server serves under /api/v2")] = "lake"
    stream_heartbeat_seconds: Annotated[
        float, Meta(ge=0.1, le=300, description="After how many seconds of silence a stream sends a bookmark")
    ] = 15.0
    stream_stall_seconds: Annotated[
        float, Meta(ge=0.1, le=3600, description="How long a stream or a large answer waits for its reader, in seconds")
    ] = 30.0
    idempotency_hours: Annotated[
        float, Meta(gt=0, le=24 * 30, description="How long an Idempotency-Key gets its first answer again, in hours")
    ] = 24.0
    idempotency_running_seconds: Annotated[
        float,
        Meta(gt=0, le=3600, description="After how long without an answer a keyed request may be taken over, in seconds"),
    ] = 30.0
    idempotency_wait_seconds: Annotated[
        float, Meta(ge=0, le=60, description="How long a second request waits for the first of its key, in seconds")
    ] = 10.0
    idempotency_gc_seconds: Annotated[float, Meta(gt=0, description="How often expired keys are deleted, in seconds")] = 60.0
    idempotency_gc_page: Annotated[int, Meta(ge=1, le=10_000, description="How many keys such a deletion reads at once")] = 500
    idempotency_gc_batch: Annotated[int, Meta(ge=1, description="The most keys that one slice of such a deletion deletes")] = (
        5_000
    )
    idempotency_gc_slice_seconds: Annotated[
        float, Meta(gt=0, le=60, description="How long one slice of such a deletion may take, in seconds")
    ] = 2.0
    plan_seconds: Annotated[
        float, Meta(ge=1, le=86_400, description="How long a plan's lease lasts if the caller does not say, in seconds")
    ] = 60.0
    plan_grace_seconds: Annotated[
        float, Meta(ge=0, le=3600, description="How long a plan that was not renewed in time still pins, in seconds")
    ] = 15.0
    plan_seconds_max: Annotated[
        float, Meta(ge=1, le=86_400, description="The longest lease of a plan that a caller may ask for, in seconds")
    ] = 3_600.0
    plan_age_hours: Annotated[
        float, Meta(gt=0, le=24 * 30, description="After how long a plan ends, however often it was renewed, in hours")
    ] = 24.0
    plans_max: Annotated[int, Meta(ge=1, description="The most plans that a realm has at a time")] = 10_000
    plans_per_principal_max: Annotated[
        int, Meta(ge=0, description="The most of these that one principal has at a time; 0: a tenth of `plans_max`")
    ] = 0
    manifest_cache_bytes: Annotated[
        int, Meta(ge=0, description="Memory for decoded manifests of planned scans, in bytes, per worker; 0: none")
    ] = 134_217_728
    plan_inputs_max: Annotated[int, Meta(ge=1, le=1_000, description="The most tables and views of one plan")] = 1_000
    usage_seconds: Annotated[
        float, Meta(ge=0, description="How often a server measures rows and bytes by realm and type, in seconds; 0: never")
    ] = 300.0
    messages_dir: Annotated[
        str, Meta(description="Folder with more languages for error messages, one TOML file each; none if empty")
    ] = ""
    stop_seconds: Annotated[
        int, Meta(ge=1, le=3600, description="How long a stopping server may take to finish accepted requests, in seconds")
    ] = 20
    log_requests: Annotated[bool, Meta(description="Whether a server logs every request, not just slow and failed ones")] = (
        False
    )
    log_file: Annotated[
        str,
        Meta(description="File to which a server also writes its log as JSON lines; its workers share it; none if empty"),
    ] = ""
    log_file_bytes: Annotated[int, Meta(ge=4_096, description="Size at which the log file is rotated, in bytes")] = (
        64 * 1024 * 1024
    )
    log_files: Annotated[
        int, Meta(ge=1, le=1_000, description="How many rotated log files are kept: log_file.1, the newest, and so on")
    ] = 5
    audit_log: Annotated[
        str,
        Meta(
            description="Services whose calls are logged for audit, separated by blanks: manage TableService, "
            "or http, grpc, all; none if empty"
        ),
    ] = ""
    traces: Annotated[
        Literal["", "otlp", "stderr"], Meta(description="Where a server sends OpenTelemetry spans; empty: nowhere")
    ] = ""
    default_realm: Annotated[
        str,
        Meta(description="The realm of requests whose path, header and token name none, e.g. for tokens of Iceberg clients"),
    ] = "default"
    principal_provider: Annotated[
        str, Meta(description="Who proves identities to a server: `tokens`, or an entry point of headwater.principal_providers")
    ] = "tokens"
    authorizer: Annotated[
        str, Meta(description="Who decides about rights: `records` of the realm, or an entry point of headwater.authorizers")
    ] = "records"
    token_seconds: Annotated[int, Meta(ge=60, le=86_400, description="How long a server's tokens are valid, in seconds")] = (
        3_600
    )
    token_key_days: Annotated[int, Meta(ge=1, le=366, description="After how many days a new key signs tokens")] = 30
    oidc_config: Annotated[
        str, Meta(description="TOML file with external issuers whose tokens are accepted; none if empty")
    ] = ""
    rate_limit_per_second: Annotated[
        float, Meta(ge=0, description="Requests per second that each worker accepts from one principal; 0: no limit")
    ] = 2_000.0
    rate_limit_burst: Annotated[float, Meta(ge=1, description="How many of these requests may come at once")] = 4_000.0
    tls_certificate: Annotated[
        str, Meta(description="PEM file with a server's certificate and its chain; plain HTTP if empty")
    ] = ""
    tls_key: Annotated[str, Meta(description="PEM file with the key of that certificate")] = ""
    tls_key_password: Annotated[str, Meta(description="Password of that key; never shown")] = ""
    allow_plaintext: Annotated[
        bool,
        Meta(
            description="Whether a server may listen on other than loopback addresses without TLS, e.g. behind a proxy with TLS"
        ),
    ] = False
    grpc_port: Annotated[int, Meta(ge=0, le=65_535, description="Port of a server's gRPC services, e.g. 8182; 0: none")] = 0
    grpc_message_bytes_max: Annotated[
        int, Meta(ge=65_536, le=64 * 1024 * 1024, description="The largest gRPC message, in bytes; 4 MiB is clients' default")
    ] = 4 * 1024 * 1024
    grpc_reflection: Annotated[bool, Meta(description="Whether the gRPC port describes its services to clients that ask")] = (
        True
    )
    grpc_connection_seconds: Annotated[
        int,
        Meta(
            ge=1,
            description="After how many seconds a gRPC client must reconnect, so that connections spread over workers",
        ),
    ] = 600
    grpc_client_ca: Annotated[
        str,
        Meta(description="PEM file with the CAs of gRPC clients' certificates; empty: no client certificates are required"),
    ] = ""
    grpc_trusted_peers: Annotated[
        str,
        Meta(
            description="Subject alternative names of gRPC clients that may name their principal by x-principal-bin, "
            "separated by blanks; needs grpc_client_ca"
        ),
    ] = ""
    directory_bytes: Annotated[
        int,
        Meta(ge=1_048_576, description="Memory of each worker for looking up names by id, for all catalogs together, in bytes"),
    ] = 128 * 1024 * 1024
    server: Annotated[
        str,
        Meta(description="The server that commands use, e.g. https://catalog.example.com; empty: they open the store itself"),
    ] = ""
    server_token: Annotated[
        str, Meta(description="Bearer token that commands send to that server, until it expires; never shown")
    ] = ""
    server_client_id: Annotated[
        str, Meta(description="Client id with which commands fetch and renew tokens from that server")
    ] = ""
    server_client_secret: Annotated[str, Meta(description="The secret of that client; never shown")] = ""
    server_ca: Annotated[
        str, Meta(description="PEM file with the certificates to trust for that server; the system's if empty")
    ] = ""
    metrics_token: Annotated[
        str,
        Meta(description="Bearer token that /metrics requires; never shown. Without one /metrics answers only this machine"),
    ] = ""
    kafka_bootstrap: Annotated[str, Meta(description="Kafka brokers, host:port,…; nothing is published if empty")] = ""
    kafka_partitions: Annotated[int, Meta(ge=1, le=10_000, description="Partitions of a new commits topic")] = 4
    kafka_shards: Annotated[
        int,
        Meta(ge=1, le=10_000, description="Partitions of a new progress topic: the most publishers that can share a realm"),
    ] = 4
    kafka_access_topic: Annotated[
        bool,
        Meta(description="Whether a realm that is published for the first time gets a separate topic for access records"),
    ] = False
    kafka_replication_factor: Annotated[int, Meta(ge=-1, description="Replicas of new topics; -1: the brokers' default")] = -1
    kafka_retention_hours: Annotated[
        int, Meta(ge=-1, description="How long a new commits topic keeps its records, in hours; -1: forever")
    ] = 720
    kafka_batch_changes: Annotated[int, Meta(ge=1, le=100_000, description="The most Changes in one Kafka transaction")] = 5_000
    kafka_record_bytes_max: Annotated[
        int, Meta(ge=1_000, description="Size above which a Change is sent to Kafka as a reference with a digest, in bytes")
    ] = 900_000
    kafka_dataref_base: Annotated[
        str, Meta(description="Base address of such references, e.g. https://catalog.example.com")
    ] = ""
    kafka_registry_url: Annotated[str, Meta(description="Confluent-compatible schema registry; none if empty")] = ""
    kafka_value_format: Annotated[
        Literal["avro", "json"], Meta(description="Format of Changes in Kafka; readers accept both")
    ] = "avro"
    kafka_lease_seconds: Annotated[
        float,
        Meta(ge=1, le=600, description="After how many seconds without a renewed lease a publisher's shards are taken over"),
    ] = 10.0
    kafka_pin_hours: Annotated[float, Meta(gt=0, description="How long unpublished history is kept for Kafka, in hours")] = (
        168.0
    )
    kafka_security_protocol: Annotated[
        Literal["", "plaintext", "ssl", "sasl_plaintext", "sasl_ssl"],
        Meta(description="Security protocol of every Kafka client, publisher and readers; plaintext if empty"),
    ] = ""
    kafka_sasl_mechanism: Annotated[
        Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"],
        Meta(description="SASL mechanism of every Kafka client"),
    ] = ""
    kafka_sasl_username: Annotated[str, Meta(description="User for SASL; client id for OAUTHBEARER")] = ""
    kafka_sasl_password: Annotated[str, Meta(description="Password for SASL; client secret for OAUTHBEARER; never shown")] = ""
    kafka_oauth_token_url: Annotated[
        str, Meta(description="Address from which OAUTHBEARER gets tokens for client credentials")
    ] = ""
    kafka_oauth_scope: Annotated[str, Meta(description="Scope of these tokens; none if empty")] = ""
    kafka_ssl_ca_location: Annotated[str, Meta(description="File with the certificates that brokers are checked against")] = ""
    kafka_ssl_certificate_location: Annotated[str, Meta(description="File with this client's certificate")] = ""
    kafka_ssl_key_location: Annotated[str, Meta(description="File with this client's private key")] = ""
    kafka_ssl_key_password: Annotated[str, Meta(description="Password of that key; never shown")] = ""
    kafka_client: Annotated[
        str,
        Meta(description="Tuning of the publisher's client, in librdkafka's names: name=value;name=value; no security"),
    ] = ""
    connector_secrets_dir: Annotated[
        str, Meta(description="Folder with the secrets of connectors, one folder for each realm; none if empty")
    ] = ""
    connector_hosts: Annotated[
        str,
        Meta(description="Hosts of connectors' sources that may be on a private network, separated by blanks: nessie.internal"),
    ] = ""
    reconcile_slots: Annotated[
        int,
        Meta(
            ge=0,
            le=64,
            description="Connectors that a server's worker reconciles at a time; 0: none, `headwater reconcile` does it",
        ),
    ] = 2
    reconcile_lease_seconds: Annotated[
        float, Meta(ge=1, le=600, description="After how many seconds without a renewed lease a connector is taken over")
    ] = 30.0
    reconcile_job_days: Annotated[int, Meta(ge=1, le=366, description="How long reconcile jobs are listed, in days")] = 7
    dev_dir: Annotated[str, Meta(description="Folder of the local servers that `headwater dev` runs")] = msgspec.field(
        default_factory=lambda: _home(".local", "share", "headwater", "dev")
    )
    jar_cache_dir: Annotated[str, Meta(description="Folder where the servers' jars are kept between checkouts")] = (
        msgspec.field(default_factory=lambda: _home(".cache", "headwater", "jars"))
    )
    retention: Annotated[
        str,
        Meta(
            description="How much history expiry keeps, by pointer pattern: cat/*/heads/main=90d, *=30d+100n; "
            "the history of rights needs a rule with its exact name"
        ),
    ] = "*=30d"
    maintain_hours: Annotated[
        float, Meta(ge=0, description="How often a server maintains its store in the background, in hours; 0: never")
    ] = 0.0
    maintain_on_spark: Annotated[
        bool, Meta(description="Whether scheduled maintenance sweeps on Spark's workers instead of a thread")
    ] = False
    maintain_by_stream: Annotated[
        Literal["auto", "always", "never"],
        Meta(
            description="Whether scheduled maintenance sweeps with the streamed retained set, and compacts it; "
            "auto: if Spark can start and only the log keeps objects"
        ),
    ] = "auto"
    files_grace_hours: Annotated[
        float,
        Meta(ge=24, description="How old an unused file of a table must be before it may be deleted, in hours"),
    ] = 168.0
    files_confirm_hours: Annotated[
        float, Meta(ge=0, description="How much earlier another sweep must have found a file unused too, in hours")
    ] = 24.0
    files_share_max: Annotated[
        float,
        Meta(gt=0, le=1, description="The largest share of a root's old files that a sweep deletes without --expect-files"),
    ] = 0.5
    files_filter: Annotated[Literal["exact", "bloom"], Meta(description="Filter for the files in use: exact or bloom")] = (
        "exact"
    )
    files_threads: Annotated[
        int,
        Meta(ge=1, le=256, description="Tables whose metadata a sweep of files reads at a time, and folders that it lists"),
    ] = 8
    files_list_prefixes: Annotated[
        int,
        Meta(ge=1, le=10_000, description="Parts into which a sweep of files splits the listing of a root; 1: none"),
    ] = 64
    files_protected: Annotated[
        str, Meta(description="Files that no sweep deletes, as patterns of locations, separated by blanks: */raw/* *.orc")
    ] = ""
    files_storage_options: Annotated[
        str,
        Meta(description="Storage options of file operations, instead of storage_options: an identity that may delete"),
    ] = ""
    purge_registered: Annotated[
        bool,
        Meta(description="Whether a drop with PURGE also deletes the files of a table that was registered by its metadata"),
    ] = False
    files_batch: Annotated[int, Meta(ge=1, le=1_000, description="Files that one request deletes")] = 250
    files_per_second: Annotated[float, Meta(ge=0, description="Limit of files deleted per second; 0: none")] = 0.0
    file_batches_per_second: Annotated[
        float, Meta(ge=0, description="Limit of requests per second that delete files; 0: none")
    ] = 10.0
    files_requests_per_second: Annotated[
        float, Meta(ge=0, description="Limit of requests per second that list, look up or read files; 0: none")
    ] = 0.0
    files_bytes_per_second: Annotated[
        float, Meta(ge=0, description="Limit of metadata bytes read per second from file storage; 0: none")
    ] = 0.0
    maintenance_dir: Annotated[str, Meta(description="Folder of the streamed retained sets; all executors must reach it")] = (
        msgspec.field(default_factory=lambda: _home(".local", "share", "headwater", "maintenance"))
    )
    spark_master: Annotated[
        str, Meta(description="Where Spark jobs run: local[N], local[*], spark://host:port, yarn or k8s://…")
    ] = "local[*]"
    spark_driver_memory: Annotated[str, Meta(description="Memory of a Spark job's driver")] = "2g"
    spark_conf: Annotated[
        str, Meta(description="More settings of Spark, separated by blanks: spark.executor.memory=4g spark.executor.cores=2")
    ] = ""


SECRETS = (
    "storage_options",
    "files_storage_options",
    "storage_client_options",
    "kafka_sasl_password",
    "kafka_ssl_key_password",
    "tls_key_password",
    "metrics_token",
    "server_token",
    "server_client_secret",
)
"""Settings whose values are never shown."""


def load_settings(
    flags: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    config: str | None = None,
) -> Settings:
    """Each value from the first of flags, environment, TOML file, default that has it."""
    environ = os.environ if environ is None else environ
    names = Settings.__struct_fields__
    merged: dict[str, object] = _from_file(config or environ.get(ENV_PREFIX + "CONFIG"))
    merged |= {name: environ[ENV_PREFIX + name.upper()] for name in names if ENV_PREFIX + name.upper() in environ}
    merged |= {name: value for name, value in (flags or {}).items() if value is not None}
    try:
        return msgspec.convert(merged, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise _refused(str(error)) from error


def _refused(reason: str) -> InvalidInput:
    """By the name of the setting, where the reason ends with it: ``Expected `int`, got `str` - at `$.port` ``."""
    message, _, path = reason.rpartition(" - at `$.")
    name = path.rstrip("`")
    if not message or name not in Settings.__struct_fields__:
        return InvalidInput(f"{reason}.", field="settings", remedy="`headwater settings` lists every setting with its meaning.")
    choices = get_args(get_args(get_type_hints(Settings, include_extras=True)[name])[0])
    words = ", ".join(repr(one) for one in choices if isinstance(one, str))
    return InvalidInput(
        f"{message}.", field=name, remedy=f"Use one of {words}." if words else "`headwater settings` says what it means."
    )


def _from_file(path: str | None) -> dict[str, object]:
    file = Path(path or CONFIG_FILE)
    if path is None and not file.exists():
        return {}
    try:
        return tomllib.loads(file.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidInput(f"{file} cannot be read: {error}.", field="config", remedy="Name a TOML file.") from error
