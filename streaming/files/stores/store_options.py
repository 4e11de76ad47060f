"""Translates storage options from Iceberg's names (`s3.endpoint`, `gcs.project-id` …) to those of obstore."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_S3 = {
    "s3.endpoint": "endpoint",
    "s3.region": "region",
    "client.region": "region",
    "s3.access-key-id": "access_key_id",
    "client.access-key-id": "access_key_id",
    "s3.secret-access-key": "secret_access_key",
    "client.secret-access-key": "secret_access_key",
    "s3.session-token": "session_token",
    "client.session-token": "session_token",
}
_GCS = {"gcs.service.host": "base_url", "gcs.endpoint": "base_url", "gcs.oauth2.token": "bearer_token"}
_AZURE = {
    "adls.account-name": "account_name",
    "adls.account-key": "account_key",
    "adls.sas-token": "sas_key",
    "adls.tenant-id": "tenant_id",
    "adls.client-id": "client_id",
    "adls.client-secret": "client_secret",
    "adls.endpoint": "endpoint",
}
_NAMES = {"s3": _S3, "gcs": _GCS, "azure": _AZURE}
_VENDORS = {
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "gs": "gcs",
    "gcs": "gcs",
    "abfs": "azure",
    "abfss": "azure",
    "wasb": "azure",
    "wasbs": "azure",
}


def vendor_of(scheme: str) -> str | None:
    """The storage that a scheme denotes; None for schemes that are not supported."""
    return _VENDORS.get(scheme.lower())


def obstore_config(vendor: str, options: Mapping[str, str]) -> dict[str, Any]:
    """Options that are not given come from the environment, as the vendor's own tools read it."""
    names = _NAMES[vendor]
    config: dict[str, Any] = {}
    for name, value in options.items():
        if name in names:
            config.setdefault(names[name], value)
    if vendor == "s3" and options.get("s3.force-virtual-addressing", "").lower() == "true":
        config["virtual_hosted_style_request"] = True
    if vendor == "azure" and "endpoint" not in config and options.get("adls.blob-storage-authority"):
        config["endpoint"] = _azure_endpoint(options)
    if vendor == "gcs" and options.get("gcs.no-auth", "").lower() == "true":
        config["skip_signature"] = True
    return config


def _azure_endpoint(options: Mapping[str, str]) -> str:
    """An authority that begins with a dot follows the account's name; any other one precedes it."""
    authority, account = options["adls.blob-storage-authority"], options.get("adls.account-name", "")
    scheme = options.get("adls.blob-storage-scheme", "https")
    return f"{scheme}://{account}{authority}" if authority.startswith(".") else f"{scheme}://{authority}/{account}"


def allows_http(config: Mapping[str, Any]) -> bool:
    """Only if the operator gave an address without TLS."""
    return any(str(config.get(name, "")).startswith("http://") for name in ("endpoint", "base_url"))
