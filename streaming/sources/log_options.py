"""Parses the options of `format("headwater")`; an error names the option that is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from headwater.schemas.errors import InvalidInput
from headwater.streaming.sources.change_rows import CHANGE_TYPES

Options = TypeVar("Options", bound=msgspec.Struct)
Text = Annotated[str, Meta(min_length=1)]


class LogOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    store: str = ""
    """URL of the store; never printed."""
    server: str = ""
    """Address of a server, instead of the store: then no database credentials are needed."""
    token: str = ""
    """For the server; a job ends when it expires. A long job uses a client's id and secret."""
    client_id: str = ""
    client_secret: str = ""
    ca: str = ""
    """PEM file with the certificates to trust, on every executor."""
    realm: Text = "default"
    """A realm's name, or its instance."""
    pointers: str = ""
    """Names, separated by commas, each may end in `*`; all of the realm if left out."""
    after: Text = "earliest"
    """earliest, latest, a time, an offset or `hwc1_` token; for a single pointer also a seq or a commit id."""
    until: str = ""
    """`start`: only what is committed before the read begins. An offset: up to there. Empty: a stream continues."""
    changes_per_batch: Annotated[int, Meta(ge=1)] = 20_000
    """The maximum that one micro-batch of a stream holds."""
    changes_per_split: Annotated[int, Meta(ge=1)] = 5_000
    """The maximum that one task reads."""
    columns: str = ""
    """Names, separated by commas: only these columns are read and computed. All, if left out."""
    poll_seconds: Annotated[float, Meta(gt=0, le=60)] = 0.2
    """How often an idle stream looks for new entries."""

    @property
    def patterns(self) -> tuple[str, ...]:
        return tuple(name.strip() for name in self.pointers.split(",") if name.strip())

    @property
    def wanted_columns(self) -> tuple[str, ...]:
        """In the fixed order of the columns."""
        named = {name.strip() for name in self.columns.split(",") if name.strip()}
        unknown = sorted(named - CHANGE_TYPES.keys())
        if unknown:
            raise InvalidInput(
                f"format 'headwater' has no column {unknown[0]!r}.",
                field="columns",
                remedy=f"The columns are {', '.join(CHANGE_TYPES)}.",
            )
        return tuple(name for name in CHANGE_TYPES if not named or name in named)

    @property
    def has_given_end(self) -> bool:
        """An end that may lie before the start of the read."""
        return self.until not in ("", "start")

    def selects(self, pointer: str) -> bool:
        return not self.patterns or any(
            pointer.startswith(name[:-1]) if name.endswith("*") else pointer == name for name in self.patterns
        )


def parse_options(given: Mapping[str, str], options: type[Options], format: str) -> Options:
    """Spark passes options in lower case and as text."""
    known = options.__struct_fields__
    for name in given:
        if name.lower() not in known:
            raise InvalidInput(
                f"format {format!r} has no option {name!r}.", field=name, remedy=f"The options are {', '.join(known)}."
            )
    lower = {name.lower(): value for name, value in given.items()}
    if not lower.get("store") and not ("server" in known and lower.get("server")):
        raise InvalidInput(
            f"format {format!r} needs the option 'store'.", field="store", remedy="Give a store URL, e.g. sqlite:///lake.db."
        )
    try:
        parsed = msgspec.convert(lower, options, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"format {format!r}: {error}.", field="options", remedy="Correct the option.") from error
    if isinstance(parsed, LogOptions):
        _check_target(parsed)
    return parsed


def _check_target(options: LogOptions) -> None:
    """⚠ Exactly one of the two, so that a job that should run with its caller's rights never bypasses them."""
    if options.store and options.server:
        raise InvalidInput("a store and a server are named.", field="server", remedy="Name one of the two.")
    for name in ("token", "client_id", "client_secret", "ca"):
        if getattr(options, name) and not options.server:
            raise InvalidInput(f"{name} is for a server, and none is named.", field=name, remedy="Add the option 'server'.")
    if "#" in options.realm and options.server:
        raise InvalidInput("a server knows realms by name.", field="realm", remedy="Give the name alone.")
