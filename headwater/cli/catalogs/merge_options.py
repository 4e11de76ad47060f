"""Flags of `merge` and `transplant` that set the merge rule for each key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import rich_click as click

from headwater.producer.merging.apply_changes import MergeRules
from headwater.producer.merging.three_way import Behavior, KeyRule
from headwater.schemas.errors import InvalidInput

F = TypeVar("F", bound=Callable[..., Any])


def rules_options(function: F) -> F:
    default = click.option(
        "--default",
        default="NORMAL",
        show_default=True,
        type=click.Choice([str(one) for one in Behavior]),
        help="The rule for all keys.",
    )
    force = click.option(
        "--force", multiple=True, metavar="KEY", help="Take this key from the source, whatever the target did."
    )
    drop = click.option("--drop", multiple=True, metavar="KEY", help="Leave this key as it is on the target.")
    return default(force(drop(function)))


def merge_rules(default: str, force: tuple[str, ...], drop: tuple[str, ...]) -> MergeRules:
    if both := set(force) & set(drop):
        raise InvalidInput(f"{min(both)!r} is both forced and dropped.", field="--force", remedy="Say one of the two.")
    by_key = {tuple(key.split(".")): KeyRule(behavior=Behavior.FORCE) for key in force}
    by_key |= {tuple(key.split(".")): KeyRule(behavior=Behavior.DROP) for key in drop}
    return MergeRules(default=Behavior(default), by_key=by_key)
