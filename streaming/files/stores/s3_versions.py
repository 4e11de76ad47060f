"""Restores files on S3: in a versioned bucket a deletion is a marker, and removing the marker restores the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from headwater.schemas.errors import StorageDenied, StoreUnavailable
from headwater.schemas.extras import needs_extra

REGION_IF_NONE_IS_NAMED = "us-east-1"
MARKERS_MAX = 20
"""Versions and markers per page: each deletion of a file that is already gone leaves one more marker."""
_DENIED = frozenset({"AccessDenied", "403", "InvalidAccessKeyId", "SignatureDoesNotMatch"})


class S3Versions:
    """The versions of one bucket. Thread-safe."""

    def __init__(self, bucket: str, options: Mapping[str, str]) -> None:
        self._bucket = bucket
        self._client = _client(options)

    def bring_back(self, key: str, *, dry_run: bool = False) -> bool:
        """Whether the file is there, or would be, without the markers of its deletion."""
        with _storage_errors(f"s3://{self._bucket}/{key}"):
            markers, has_content = self._newest(key)
            if not has_content:
                return False
            for version in () if dry_run else markers:
                self._client.delete_object(Bucket=self._bucket, Key=key, VersionId=version)
        return True

    def _newest(self, key: str) -> tuple[list[str], bool]:
        """The markers above the newest content, and whether there is one. Versions are listed by key, the newest first."""
        markers: list[tuple[Any, str]] = []
        after: dict[str, str] = {}
        while True:
            page = self._client.list_object_versions(Bucket=self._bucket, Prefix=key, MaxKeys=MARKERS_MAX, **after)
            own = [one for one in page.get("Versions", ()) if one["Key"] == key]
            markers += [(one["LastModified"], one["VersionId"]) for one in page.get("DeleteMarkers", ()) if one["Key"] == key]
            if own:
                newest = max(one["LastModified"] for one in own)
                latest = any(one["IsLatest"] for one in own)
                return ([] if latest else [version for at, version in markers if at >= newest]), True
            if not page.get("IsTruncated") or page.get("NextKeyMarker") != key:
                return [], False
            after = {"KeyMarker": page["NextKeyMarker"], "VersionIdMarker": page["NextVersionIdMarker"]}


def _client(options: Mapping[str, str]) -> Any:
    with needs_extra("Bringing back files on S3", "service"):
        from botocore.config import Config
        from botocore.session import Session
    session = Session()
    in_host = options.get("s3.force-virtual-addressing", "").lower() == "true" or not options.get("s3.endpoint")
    return session.create_client(
        "s3",
        region_name=options.get("s3.region")
        or options.get("client.region")
        or session.get_config_variable("region")
        or REGION_IF_NONE_IS_NAMED,
        endpoint_url=options.get("s3.endpoint") or None,
        aws_access_key_id=options.get("s3.access-key-id") or options.get("client.access-key-id"),
        aws_secret_access_key=options.get("s3.secret-access-key") or options.get("client.secret-access-key"),
        aws_session_token=options.get("s3.session-token") or options.get("client.session-token"),
        config=Config(s3={"addressing_style": "virtual" if in_host else "path"}, retries={"mode": "standard"}),
    )


@contextmanager
def _storage_errors(location: str) -> Iterator[None]:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        if code in _DENIED:
            raise StorageDenied(
                f"the storage of {location[:200]} refuses access: {code}.",
                field="storage_options",
                remedy="Allow s3:ListBucketVersions and s3:DeleteObjectVersion.",
            ) from None
        raise StoreUnavailable(f"{location[:200]}: {code or 'an error without a code'}.") from None
    except BotoCoreError as error:
        raise StoreUnavailable(f"{location[:200]}: {type(error).__name__}.") from None
