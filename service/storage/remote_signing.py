"""Signs single S3 requests of clients that have no credentials.

⚠ A signature is as good as a key for what it signs. Only plain operations on objects below the table's places are signed, only
for the server's own endpoint. No header that S3 reads as an order, such as `x-amz-copy-source`, is signed, and S3 refuses it
unsigned.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest

from headwater.schemas.errors import InvalidInput, NotPermitted
from headwater.service.storage.s3_identity import S3Identity
from headwater.service.storage.vended_credentials import bucket_and_key

_READ = frozenset({"partNumber", "versionId", "x-id"})
_LIST = frozenset(
    {
        "list-type",
        "prefix",
        "delimiter",
        "max-keys",
        "continuation-token",
        "start-after",
        "encoding-type",
        "fetch-owner",
        "x-id",
    }
)
_WRITE = {
    "PUT": frozenset({"partNumber", "uploadId", "x-id"}),
    "POST": frozenset({"uploads", "uploadId", "x-id"}),
}
_SIGNED = re.compile(
    r"content-md5|content-type|range|if-match|if-none-match|if-modified-since|if-unmodified-since|x-amz-checksum-[a-z0-9-]+"
    r"|x-amz-sdk-checksum-algorithm|x-amz-trailer|x-amz-te|x-amz-decoded-content-length|x-amz-expected-bucket-owner"
    r"|x-amz-server-side-encryption[a-z-]*"
)
_OURS = ("x-amz-date", "x-amz-content-sha256", "x-amz-security-token")
_PAYLOAD = re.compile(r"[0-9a-f]{64}|UNSIGNED-PAYLOAD|STREAMING-UNSIGNED-PAYLOAD-TRAILER")
_URI = re.compile(r"(?:[A-Za-z0-9._~:/?@!$&'()*,=\[\]-]|%[0-9A-Fa-f]{2}){1,8192}")
"""⚠ Without what one program reads as a letter and the next as an order: raw `+`, `;`, blanks, backslashes, loose `%`."""
_AWS_HOST = re.compile(r"(?:(?P<bucket>[a-z0-9][a-z0-9.-]*)\.)?s3(?:[.-][a-z0-9-]+)?\.amazonaws\.com(?:\.cn)?")


class SignRequest(msgspec.Struct, frozen=True):
    """As the specification's RemoteSignRequest."""

    region: str
    uri: str
    method: str
    headers: dict[str, list[str]]
    properties: dict[str, str] = {}
    body: str | None = None
    provider: str | None = None


class Act(StrEnum):
    READ = "read"
    LIST = "list"
    WRITE = "write"
    DELETE = "delete"


class S3Target(msgspec.Struct, frozen=True):
    act: Act
    bucket: str
    key: str
    """Key of the object; for a listing, its prefix."""

    def check_within(self, places: Sequence[str]) -> None:
        """`NotPermitted` unless it is below one of the table's places."""
        for place in places:
            bucket, key = bucket_and_key(place)
            if self.bucket == bucket and self.key.startswith(f"{key}/"):
                return
        raise NotPermitted(
            "the request is not for a file of the table.", field="uri", remedy="Ask at the table that the file belongs to."
        )


def target_of(request: SignRequest, identity: S3Identity) -> S3Target:
    """What the request would do, and to what; `InvalidInput` for everything but plain operations on objects."""
    parts = _split(request.uri)
    if request.provider not in (None, "s3") or parts.username is not None:
        raise _refused("it is not a request to S3.")
    bucket, key = _bucket_and_path(parts.scheme, parts.netloc, _decoded(parts.path), identity)
    query = _query(parts.query)
    if "\\" in key or any(part in (".", "..") for part in key.split("/")):
        raise _refused("its path holds dots or backslashes, which a proxy may resolve.")
    if not key:
        return S3Target(_listing(request.method, query), bucket, query.get("prefix", ""))
    return S3Target(_act(request.method, query), bucket, key)


def signed(request: SignRequest, identity: S3Identity) -> dict[str, list[str]]:
    """The headers to send, with the signature."""
    named = {name.lower(): ",".join(values) for name, values in request.headers.items()}
    unknown = next((one for one in named if one.startswith("x-amz-") and not _SIGNED.fullmatch(one) and one not in _OURS), None)
    if unknown is not None:
        raise InvalidInput(f"{unknown[:80]} is not signed here.", field="headers", remedy="Leave it out.")
    payload = named.get("x-amz-content-sha256", "UNSIGNED-PAYLOAD")
    if not _PAYLOAD.fullmatch(payload):
        payload = "UNSIGNED-PAYLOAD"
    headers = {name: value for name, value in named.items() if _SIGNED.fullmatch(name)}
    made = AWSRequest(method=request.method, url=request.uri, headers=headers)
    _Signature(identity.credentials(), identity.region, payload).add_auth(made)
    return {name: [value] for name, value in made.headers.items()}


class _Signature(S3SigV4Auth):  # type: ignore[misc]
    """The client says what its payload hashes to: the server does not see it."""

    def __init__(self, credentials: Any, region: str, payload: str) -> None:
        super().__init__(credentials, "s3", region)
        self._payload = payload

    def payload(self, request: Any) -> str:
        return self._payload


def _act(method: str, query: dict[str, str]) -> Act:
    if query.get("uploadId") == "":  # ⚠ some servers take it for none, and delete the object instead of an upload
        raise _refused("its upload has no name.")
    if method in ("GET", "HEAD") and query.keys() <= _READ:
        return Act.READ
    if method in _WRITE and query.keys() <= _WRITE[method] and (method == "PUT" or {"uploads", "uploadId"} & query.keys()):
        return Act.WRITE
    if method == "DELETE" and query.keys() <= {"uploadId", "x-id"}:
        return Act.WRITE if "uploadId" in query else Act.DELETE
    raise _refused(f"{method[:20]} with these parameters is not signed here.")


def _listing(method: str, query: dict[str, str]) -> Act:
    if method != "GET" or query.get("list-type") != "2" or not query.keys() <= _LIST:
        raise _refused("of requests to a bucket, only listings of version 2 are signed here.")
    return Act.LIST


def _split(uri: str) -> SplitResult:
    if _URI.fullmatch(uri) is None:
        raise _refused("its address holds characters that must be percent-encoded.")
    try:
        return urlsplit(uri)
    except ValueError:
        raise _refused("its address cannot be read.") from None


def _query(text: str) -> dict[str, str]:
    pairs = [(_decoded(name), _decoded(value)) for name, _, value in (one.partition("=") for one in text.split("&")) if name]
    if len(dict(pairs)) != len(pairs):
        raise _refused("a parameter occurs twice.")
    return dict(pairs)


def _decoded(text: str) -> str:
    try:
        found = unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise _refused("it is not in UTF-8.") from None
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in found):
        raise _refused("it holds control characters.")
    return found


def _bucket_and_path(scheme: str, host: str, path: str, identity: S3Identity) -> tuple[str, str]:
    """Path style, or with the bucket in the host's name. ⚠ No other host gets a signature, and no bucket is read from a host
    where the storage may not do so: it would take the path's first part for the bucket."""
    where = urlsplit(identity.endpoint)
    bucket = ""
    if identity.endpoint and scheme == where.scheme and host == where.netloc:
        pass
    elif identity.endpoint and scheme == where.scheme and identity.bucket_is_in_host and host.endswith(f".{where.netloc}"):
        bucket = host.removesuffix(f".{where.netloc}")
    elif not identity.endpoint and scheme == "https" and (match := _AWS_HOST.fullmatch(host)) is not None:
        bucket = match["bucket"] or ""
    else:
        raise _refused("its host is not the storage of the table.")
    if bucket:
        return bucket, path.removeprefix("/")
    bucket, _, key = path.removeprefix("/").partition("/")
    return bucket, key


def _refused(why: str) -> InvalidInput:
    return InvalidInput(f"The request cannot be signed: {why}", field="uri", remedy="Read or write an object of the table.")
