"""Parses settings of file storage: what the server uses, and what it tells clients, without secrets.

Names are those of PyIceberg and the Iceberg specification: `s3.endpoint`, `s3.region`, `gcs.project-id`, `adls.account-name` …
"""

from __future__ import annotations

import re
import shlex

import msgspec

from headwater.schemas.errors import InvalidInput
from headwater.service.storage.delegation_options import DelegationOptions

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,200}")
_PLAIN = frozenset(
    {
        "client.region",
        "s3.region",
        "s3.endpoint",
        "s3.path-style-access",
        "s3.force-virtual-addressing",
        "s3.connect-timeout",
        "s3.request-timeout",
        "s3.proxy-uri",
        "s3.resolve-region",
        "s3.remote-signing-enabled",
        "s3.acceleration-enabled",
        "s3.dualstack-enabled",
        "s3.use-arn-region-enabled",
        "s3.delete-enabled",
        "s3.checksum-enabled",
        "gcs.project-id",
        "gcs.endpoint",
        "gcs.service.host",
        "gcs.default-location",
        "gcs.version-aware",
        "gcs.no-auth",
        "adls.account-name",
        "adls.account-host",
        "adls.blob-storage-authority",
        "adls.dfs-storage-authority",
        "adls.blob-storage-scheme",
        "adls.dfs-storage-scheme",
        "adls.endpoint",
        "hdfs.host",
        "hdfs.port",
        "io-impl",
        "py-io-impl",
        "write.object-storage.enabled",
    }
)
"""⚠ Options that hold no secret. All others count as secret until the operator says otherwise: an unknown name may hold
a key, as `adls.connection-string` does."""
_KEY_IN_VALUE = re.compile(r"AccountKey=|SharedAccess|[?&;]sig=|PRIVATE KEY|://[^/@]*:[^/@]*@", re.IGNORECASE)


class StorageOptions(msgspec.Struct, frozen=True):
    server: dict[str, str] = {}
    """How the server reads and writes metadata files; what is not said here comes from its environment."""
    clients: dict[str, str] = {}
    """Sent to every client that may load a table."""
    delegation: DelegationOptions = DelegationOptions()

    @property
    def secrets_told(self) -> dict[str, str]:
        return {name: value for name, value in self.clients.items() if is_secret(name, value)}

    @property
    def told_to_all(self) -> dict[str, str]:
        return {name: value for name, value in self.clients.items() if not is_secret(name, value)}


def server_storage(options: str) -> StorageOptions:
    """For commands that access files themselves and serve no clients."""
    return storage_options(options, "", tell_secrets=False)


def storage_options(
    server: str, clients: str, *, tell_secrets: bool, delegation: DelegationOptions | None = None
) -> StorageOptions:
    """⚠ A long-lived key is sent to clients only if the operator allows it explicitly."""
    client_options = _pairs(clients, "storage_client_options")
    secret = next((name for name, value in client_options.items() if is_secret(name, value)), None)
    if secret is not None and not tell_secrets:
        raise InvalidInput(
            f"{secret} is a secret, and every client that may load a table could read it.",
            field="storage_client_options",
            remedy="Leave it out, or set storage_client_secrets=true.",
        )
    return StorageOptions(_pairs(server, "storage_options"), client_options, delegation or DelegationOptions())


def is_secret(name: str, value: str) -> bool:
    return name not in _PLAIN or _KEY_IN_VALUE.search(value) is not None


def _pairs(text: str, field: str) -> dict[str, str]:
    try:
        pairs = [pair.partition("=") for pair in shlex.split(text)]
    except ValueError as error:
        raise InvalidInput("a quote is not closed.", field=field, remedy="Close it.") from error
    if any(not equals or not _NAME.fullmatch(name) for name, equals, _ in pairs):
        raise InvalidInput("it is not name=value, blank between.", field=field, remedy="Write e.g. s3.region=eu-west-1.")
    return {name: value for name, _, value in pairs}
