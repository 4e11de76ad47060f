"""Reads a connector's secret from a file of its own realm's folder, and from nowhere else."""

from __future__ import annotations

import re
from pathlib import Path

from headwater.schemas.errors import InvalidInput

SECRET_BYTES_MAX = 65_536
_REFERENCE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}(?:/[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}){0,7}")


def check_secret_ref(reference: str) -> str:
    """A plain relative path: no `..`, no leading slash."""
    if reference and (not _REFERENCE.fullmatch(reference) or ".." in reference):
        raise InvalidInput(
            f"{reference[:200]!r} names no secret.",
            field="secret_ref",
            remedy="Name a file below the realm's folder of connector_secrets_dir, e.g. nessie-token.",
        )
    return reference


def read_secret(secrets_dir: str, realm: str, reference: str) -> bytes:
    """⚠ The file must lie below the realm's own folder after every link is followed: else a realm could read another's."""
    if not reference:
        return b""
    check_secret_ref(reference)
    if not secrets_dir:
        raise InvalidInput(
            "this process has no folder of secrets.", field="secret_ref", remedy="Set connector_secrets_dir, or leave it out."
        )
    folder = (Path(secrets_dir) / realm).resolve()
    file = (folder / reference).resolve()
    try:
        if not realm.strip(".") or not file.is_relative_to(folder) or not file.is_file():
            raise FileNotFoundError
        with file.open("rb") as opened:
            return opened.read(SECRET_BYTES_MAX)
    except OSError:
        raise InvalidInput(
            f"there is no secret {reference[:200]!r} of realm {realm}.",
            field="secret_ref",
            remedy=f"Put the file into the folder {realm} of connector_secrets_dir.",
        ) from None
