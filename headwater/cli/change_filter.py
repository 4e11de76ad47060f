"""The options that choose changes by what they are about."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import rich_click as click

from headwater.producer.content.content_types import check_type_name
from headwater.schemas.change import Kind, Op
from headwater.schemas.filters import Filter


def filtered(function: Callable[..., Any]) -> Callable[..., Any]:
    """Gives the command a `wanted`: the Filter that its options make."""

    @click.option("--kind", "kinds", multiple=True, type=click.Choice([str(kind) for kind in Kind]), help="Only these kinds.")
    @click.option("--op", "ops", multiple=True, type=click.Choice([str(op) for op in Op]), help="Only these operations.")
    @click.option("--type", "types", multiple=True, metavar="TYPE", help="Only these content types, e.g. ICEBERG_TABLE.")
    @click.option("--prefix", default="", metavar="KEY", help="Only this key and those below it, e.g. db or db.orders.")
    @wraps(function)
    def command(
        *args: Any, kinds: tuple[str, ...], ops: tuple[str, ...], types: tuple[str, ...], prefix: str, **named: Any
    ) -> Any:
        wanted = Filter(
            kinds=tuple(Kind(kind) for kind in kinds),
            operations=tuple(Op(op) for op in ops),
            types=tuple(check_type_name(name, "--type") for name in types),
            prefix=tuple(prefix.split(".")) if prefix else (),
        )
        return function(*args, wanted=wanted, **named)

    return command
