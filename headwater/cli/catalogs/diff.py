"""`headwater diff`: prints the keys at which two references or commits differ."""

from __future__ import annotations

from itertools import islice

import msgspec
import rich_click as click

from headwater.cli.output import as_json, print_json, print_table
from headwater.cli.target import catalog_of, in_catalog, key_text
from headwater.persistence.log.log_entry import Content
from headwater.producer.merging.changed_keys import ChangedKey
from headwater.schemas.change import KeyPath, Value
from headwater.schemas.entry_ids import content_id_text
from headwater.settings import Settings


class DiffLine(msgspec.Struct, frozen=True):
    key: KeyPath
    type: str
    content_id: str
    before: Value | None
    after: Value | None


@click.command()
@click.argument("before")
@click.argument("after")
@in_catalog
@click.option("--limit", default=1000, show_default=True, type=click.IntRange(1), help="How many at most.")
@as_json
@click.pass_obj
def command(settings: Settings, before: str, after: str, realm: str, catalog: str, limit: int, json_output: bool) -> None:
    """Show what changed from BEFORE to AFTER, key by key; both are branches, tags or commits."""
    with catalog_of(settings, realm, catalog) as lake:
        lines = [_line(changed) for changed in islice(lake.diff(before, after), limit)]
    if json_output:
        print_json({"diff": lines})
    else:
        print_table(["", "key", "type", "before", "after"], [_row(line) for line in lines])


def _line(changed: ChangedKey) -> DiffLine:
    content = changed.after or changed.before
    if content is None:
        raise ValueError("a key that is absent on both sides does not differ")
    return DiffLine(
        changed.key, content.type, content_id_text(content.content_id), _value(changed.before), _value(changed.after)
    )


def _value(content: Content | None) -> Value | None:
    return None if content is None else content.value


def _row(line: DiffLine) -> tuple[str, str, str, str, str]:
    sign = "+" if line.before is None else "-" if line.after is None else "~"
    return sign, key_text(line.key), line.type, _shown(line.before), _shown(line.after)


def _shown(value: Value | None) -> str:
    return "" if value is None else str(value.get("metadata_location", value))
