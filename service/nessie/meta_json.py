"""Converts author, message and headers of a commit between Nessie's JSON and ours.

⚠ The author of an entry is the principal that committed it, whatever a client says: Nessie calls it the committer. Authors
that the client names are a claim and are kept as such. A property with one value is a header of the entry. What has no place
there (claimed authors, sign-offs, the author's time, properties with several values) is one header more, as JSON.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.persistence.log.log_entry import LogRecord, parent
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.schemas.entry_ids import micros_of, time_text
from headwater.schemas.errors import InvalidInput

EXTRAS = "nessie"


class MetaBody(msgspec.Struct, frozen=True, rename="camel"):
    """CommitMeta as clients of either version send it."""

    message: str = ""
    authors: list[str | None] | None = None
    author: str | None = None
    all_signed_off_by: list[str | None] | None = None
    signed_off_by: str | None = None
    author_time: str | None = None
    all_properties: dict[str, list[str]] | None = None
    properties: dict[str, str] | None = None
    hash: str | None = None
    committer: str | None = None
    commit_time: str | None = None
    parent_commit_hashes: list[str] | None = None


class Extras(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    authors: list[str] = []
    """The author that the client names, if it is not the principal."""
    signed_off_by: list[str] = []
    author_time: str = ""
    properties: dict[str, list[str]] = {}


NO_EXTRAS = Extras()
_encode = msgspec.json.Encoder().encode
_extras = msgspec.json.Decoder(Extras)


class NessieHeaders(msgspec.Struct, frozen=True):
    """What `Nessie-Commit-…` headers say."""

    message: str = ""
    authors: list[str] = []
    signed_off_by: list[str] = []
    properties: dict[str, list[str]] = {}


def read_headers(headers: list[tuple[bytes, bytes]]) -> NessieHeaders | None:
    """None without any, as with nearly every request."""
    found: list[tuple[str, str]] | None = None
    for raw, text in headers:
        if raw.startswith(b"nessie-commit-"):
            found = found or []
            found.append((raw[14:].decode("latin-1"), text.decode("utf-8", "replace").strip()))
    if found is None:
        return None
    properties: dict[str, list[str]] = {}
    for name, value in found:
        if name.startswith("property-") and value:
            properties.setdefault(name.removeprefix("property-").strip(), []).append(value)
    return NessieHeaders(
        next((value for name, value in found if name == "message" and value), ""),
        _listed(found, "authors"),
        _listed(found, "signedoffby"),
        properties,
    )


def to_meta(body: MetaBody, headers: NessieHeaders | None, principal: str) -> CommitMeta:
    _refuse_what_the_server_sets(body)
    authors = _texts(body.authors, body.author)
    signed = _texts(body.all_signed_off_by, body.signed_off_by)
    properties = body.all_properties or {name: [value] for name, value in (body.properties or {}).items()}
    message = body.message
    if headers is not None:
        message = headers.message or message
        authors, signed = [*authors, *headers.authors], [*signed, *headers.signed_off_by]
        properties = {**properties, **headers.properties}
    plain = {name: values[0] for name, values in properties.items() if len(values) == 1 and name != EXTRAS and name.strip()}
    extras = Extras(
        [] if authors == [principal] else authors,
        signed,
        "" if body.author_time is None else time_text(micros_of(body.author_time, field="commitMeta.authorTime")),
        {name: values for name, values in properties.items() if name not in plain},
    )
    if extras != NO_EXTRAS:
        plain[EXTRAS] = _encode(extras).decode()
    return CommitMeta(principal, message, plain)


def require_message(meta: CommitMeta) -> CommitMeta:
    if not meta.message.strip():
        raise InvalidInput("a commit has no message.", field="commitMeta.message", remedy="Say what it does.")
    return meta


def meta_json(logged: LogRecord) -> dict[str, Any]:
    entry = logged.entry
    extras, headers = _read_extras(entry.headers)
    properties = {name: [value] for name, value in headers.items()} | extras.properties
    parents = [parent(entry).hex()]
    if entry.source is not None:
        parents.append(entry.source.commit.hex())
    time = time_text(entry.time)
    return {
        "hash": logged.entry_id.hex(),
        "committer": entry.author,
        "authors": extras.authors or [entry.author],
        "allSignedOffBy": extras.signed_off_by,
        "message": entry.message,
        "commitTime": time,
        "authorTime": extras.author_time or time,
        "allProperties": properties,
        "parentCommitHashes": parents,
    }


def _read_extras(headers: dict[str, str]) -> tuple[Extras, dict[str, str]]:
    """⚠ Entries come through other APIs too, where that header may be anything: then it is a property like others."""
    if EXTRAS not in headers:
        return NO_EXTRAS, headers
    try:
        extras = _extras.decode(headers[EXTRAS])
    except (msgspec.DecodeError, UnicodeEncodeError):
        return NO_EXTRAS, headers
    return extras, {name: value for name, value in headers.items() if name != EXTRAS}


def _refuse_what_the_server_sets(body: MetaBody) -> None:
    given = (body.hash, body.committer, body.commit_time, body.parent_commit_hashes or None)
    if any(value is not None for value in given):
        raise InvalidInput(
            "hash, committer, commitTime and parentCommitHashes are set here.", field="commitMeta", remedy="Leave them out."
        )


def _texts(many: list[str | None] | None, one: str | None) -> list[str]:
    return [text for text in (many if many is not None else [one]) if text]


def _listed(found: list[tuple[str, str]], wanted: str) -> list[str]:
    return [part.strip() for name, value in found if name == wanted for part in value.split(",") if part.strip()]
