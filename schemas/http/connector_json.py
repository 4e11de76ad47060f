"""JSON bodies of connectors and reconcile jobs in the management API."""

from __future__ import annotations

import msgspec

from headwater.schemas.http.manage_json import Body, MutationMeta, Path, Properties


class ConnectorBody(Body, frozen=True, kw_only=True):
    name: str
    source: str
    """iceberg-rest, nessie, headwater, delta, hive, or a plug-in's."""
    uri: str
    properties: Properties = {}
    """Options of the source. They are not secret."""
    secret_ref: str = ""
    """Names a file in the realm's folder of the server's `connector_secrets_dir`."""
    roots: list[str]
    """Where the files of observed tables may lie."""
    catalog: str
    branch: str = ""
    """The default branch, if left out."""
    path: Path = []
    """Everything below it belongs to the connector."""
    interval_seconds: int = 30
    description: str = ""
    paused: bool = False


class ConnectorChange(Body, frozen=True, kw_only=True):
    """Fields that are left out stay as they are."""

    status: str | None = None
    """ACTIVE or PAUSED."""
    interval_seconds: int | None = None
    description: str | None = None
    properties: Properties | None = None
    secret_ref: str | None = None


class ConnectorInfo(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    source: str
    uri: str
    properties: Properties
    secret_ref: str
    roots: list[str]
    catalog: str
    branch: str
    path: Path
    status: str
    interval_seconds: int
    description: str
    version: str


class ConnectorWritten(msgspec.Struct, frozen=True, kw_only=True):
    connector: ConnectorInfo
    meta: MutationMeta


class ConnectorsPage(msgspec.Struct, frozen=True, kw_only=True):
    connectors: list[ConnectorInfo]
    next_token: str | None = None


class ConnectorValid(msgspec.Struct, frozen=True, kw_only=True):
    """The source was reached and read."""

    connector: str
    source: str
    has_log: bool
    """Whether the source is followed commit by commit; otherwise it is polled."""


class JobBody(Body, frozen=True, kw_only=True):
    full_rescan: bool = False
    """Compare the whole state, whatever the position is."""
    scope: list[Path] = []
    """Only these namespaces and tables, with all below them, as the destination's catalog names them. Only for sources that
    are polled."""


class JobFailure(msgspec.Struct, frozen=True, kw_only=True):
    key: Path
    code: str
    message: str


class JobInfo(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    connector: str
    state: str
    full_rescan: bool
    scope: list[Path] = []
    """Empty for everything."""
    requested_by: str
    created: str
    started: str | None = None
    ended: str | None = None
    counters: dict[str, int]
    failures: list[JobFailure]
    """The first 100."""
    error: str
    """Why the whole run failed."""


class JobsPage(msgspec.Struct, frozen=True, kw_only=True):
    jobs: list[JobInfo]
