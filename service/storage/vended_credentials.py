"""Makes short-lived credentials for the files of one table: a role of STS, narrowed by an inline policy.

⚠ A policy treats `*`, `?` and `${…}` in a key as patterns, so a table with such a location gets none.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from botocore.exceptions import BotoCoreError, ClientError

from headwater.schemas.errors import LocationForbidden, StoreUnavailable
from headwater.service.storage.delegation_options import DelegationOptions
from headwater.service.storage.s3_identity import S3Identity

KEPT_MAX = 10_000
_S3_PLACE = re.compile(r"s3[an]?://(?P<bucket>[^/]+)/(?P<key>.+)")
_PATTERN = re.compile(r"[*?$]")
READ_ACTIONS = ("s3:GetObject",)
WRITE_ACTIONS = ("s3:PutObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts")
DELETE_ACTIONS = ("s3:DeleteObject",)


CREDENTIAL_NAMES = frozenset({"s3.access-key-id", "s3.secret-access-key", "s3.session-token", "s3.session-token-expires-at-ms"})


class Allowed(msgspec.Struct, frozen=True):
    """What a caller may do with the files of a table."""

    writes: bool = False
    deletes: bool = False


class VendedCredentials(msgspec.Struct, frozen=True):
    access_key_id: str
    secret_access_key: str
    session_token: str
    expires_at_ms: int

    @property
    def config(self) -> dict[str, str]:
        """In the words of Iceberg's clients."""
        return {
            "s3.access-key-id": self.access_key_id,
            "s3.secret-access-key": self.secret_access_key,
            "s3.session-token": self.session_token,
            "s3.session-token-expires-at-ms": str(self.expires_at_ms),
        }


class CredentialVendor:
    """Thread-safe. Credentials of the same scope are given out again until half of their time has passed."""

    def __init__(
        self, identity: S3Identity, options: DelegationOptions, clock_seconds: Callable[[], float] = time.time
    ) -> None:
        self._identity = identity
        self._options = options
        self._clock_seconds = clock_seconds
        self._kept: dict[tuple[tuple[str, ...], Allowed], VendedCredentials] = {}
        self._lock = threading.Lock()

    def credentials(self, places: Sequence[str], allowed: Allowed) -> VendedCredentials:
        """May wait for STS. `LocationForbidden` for a place that no policy can name, `StoreUnavailable` if STS refuses."""
        scope = (tuple(places), allowed)
        kept = self._kept.get(scope)
        soonest_ms = (self._clock_seconds() + self._options.seconds / 2) * 1_000
        if kept is not None and kept.expires_at_ms > soonest_ms:
            return kept
        made = self._assume_role(session_policy(places, allowed, self._options.role.split(":")[1]))
        with self._lock:
            if len(self._kept) >= KEPT_MAX:
                self._kept.clear()
            self._kept[scope] = made
        return made

    def _assume_role(self, policy: str) -> VendedCredentials:
        try:
            answer = self._identity.client("sts", self._options.sts_endpoint).assume_role(
                RoleArn=self._options.role,
                RoleSessionName="headwater",
                Policy=policy,
                DurationSeconds=self._options.seconds,
            )["Credentials"]
        except (BotoCoreError, ClientError) as error:  # ⚠ only its kind: a message may quote what was sent
            code = error.response["Error"]["Code"] if isinstance(error, ClientError) else type(error).__name__
            raise StoreUnavailable(f"No credentials can be made: {code}.", remedy="Look at storage_role.") from error
        expires_at_ms = int(answer["Expiration"].timestamp() * 1_000)
        return VendedCredentials(answer["AccessKeyId"], answer["SecretAccessKey"], answer["SessionToken"], expires_at_ms)


def session_policy(places: Sequence[str], allowed: Allowed, partition: str = "aws") -> str:
    """Objects below the places, and listings of them, as a policy of IAM."""
    split = [bucket_and_key(place) for place in places]
    actions = [*READ_ACTIONS, *(WRITE_ACTIONS if allowed.writes else ()), *(DELETE_ACTIONS if allowed.deletes else ())]
    statements: list[dict[str, Any]] = [
        {"Effect": "Allow", "Action": actions, "Resource": [f"arn:{partition}:s3:::{bucket}/{key}/*" for bucket, key in split]}
    ]
    statements += [
        {
            "Effect": "Allow",
            "Action": "s3:ListBucket",
            "Resource": f"arn:{partition}:s3:::{bucket}",
            "Condition": {"StringLike": {"s3:prefix": [f"{key}/", f"{key}/*"]}},
        }
        for bucket, key in split
    ]
    return msgspec.json.encode({"Version": "2012-10-17", "Statement": statements}).decode()


def bucket_and_key(place: str) -> tuple[str, str]:
    match = _S3_PLACE.fullmatch(place.rstrip("/"))
    if match is None or _PATTERN.search(place):
        raise LocationForbidden(
            f"no credentials can be made for {place[:200]!r}.",
            field="location",
            remedy="Move the table to a location on S3 without *, ? and $.",
        )
    return match["bucket"], match["key"]
