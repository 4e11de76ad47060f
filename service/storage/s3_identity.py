"""Who the server is on S3: its credentials, region and endpoint, from the storage options or else from its environment."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from botocore.credentials import Credentials
from botocore.session import Session

from headwater.schemas.errors import StoreUnavailable

REGION_IF_NONE_IS_NAMED = "us-east-1"


class S3Identity:
    """Thread-safe."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options

    @property
    def endpoint(self) -> str:
        return self._options.get("s3.endpoint", "").rstrip("/")

    @property
    def region(self) -> str:
        named = self._options.get("s3.region") or self._options.get("client.region")
        return named or self._session.get_config_variable("region") or REGION_IF_NONE_IS_NAMED

    @property
    def bucket_is_in_host(self) -> bool:
        """As PyIceberg reads the same option: with an endpoint of one's own, only if it is asked for."""
        forced = self._options.get("s3.force-virtual-addressing", "false").lower() == "true"
        return forced or not self.endpoint

    def credentials(self) -> Any:
        """As they are now: those of an instance are renewed by botocore."""
        found = self._credentials
        if found is None:
            raise StoreUnavailable(
                "the server has no credentials for S3.", remedy="Name them in storage_options, or in its environment."
            )
        return found.get_frozen_credentials()

    def client(self, service: str, endpoint: str) -> Any:
        mine = self.credentials()
        return self._session.create_client(
            service,
            region_name=self.region,
            endpoint_url=endpoint or None,
            aws_access_key_id=mine.access_key,
            aws_secret_access_key=mine.secret_key,
            aws_session_token=mine.token,
        )

    @cached_property
    def _session(self) -> Any:
        return Session()

    @cached_property
    def _credentials(self) -> Any:
        key, secret = self._options.get("s3.access-key-id"), self._options.get("s3.secret-access-key")
        if key and secret:
            return Credentials(key, secret, self._options.get("s3.session-token"))
        return self._session.get_credentials()
