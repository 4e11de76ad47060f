"""⚠ The listing must prove itself: a file in use that is older than the listing and was not listed means that the listing is
incomplete, or of another bucket, mount or endpoint. Then nothing below this root is deleted."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.schemas.errors import MaintenanceRefused
from headwater.streaming.files.fingerprints import fingerprint
from headwater.streaming.files.stores.storages import Storages
from headwater.streaming.files.sweep.roots import place_of
from headwater.streaming.reachability.id_set import IdSet


def prove_listing(storages: Storages, root: str, live: Iterable[str], listed: IdSet, salt: bytes, listed_at: int) -> list[str]:
    """Returns the files in use that are gone: damage, to be reported, and no reason to delete anything. `live` holds at least
    those that were not listed; `listed_at` is the time by the storage's clock before which a file must have been listed."""
    place, gone, asked = place_of(root), [], set[str]()
    for location in live:
        if location in asked or not place_of(location).startswith(place) or fingerprint(location, salt) in listed:
            continue
        asked.add(location)
        found = storages.of(location).head(location)
        if found is None:
            gone.append(location)
        elif found.modified is None or found.modified < listed_at:
            raise MaintenanceRefused(
                f"{location[:500]} is on storage and in use, and the listing of {root} does not show it.",
                field="root",
                remedy="Nothing below this root was deleted. Check its endpoint, bucket and spelling.",
                root=root,
            )
    return gone
