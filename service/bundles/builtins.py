"""Builtin functions and types: those of Iceberg, and those of plug-ins.

A plug-in is an entry point of the group `headwater.builtins`: a function without arguments that returns `Builtins`.
"""

from __future__ import annotations

import hashlib
import tomllib
from functools import cache
from importlib import metadata
from pathlib import Path

import msgspec

ENTRY_POINT_GROUP = "headwater.builtins"
_FILE = Path(__file__).parent / "builtins.toml"


class BuiltinFunction(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    arguments: list[str] = []
    result: str
    doc: str = ""


class BuiltinType(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    doc: str = ""


class Builtins(msgspec.Struct, frozen=True, kw_only=True):
    functions: list[BuiltinFunction] = []
    types: list[BuiltinType] = []

    @property
    def digest(self) -> str:
        return hashlib.sha256(msgspec.msgpack.encode(self)).hexdigest()[:32]


@cache
def all_builtins() -> Builtins:
    """In order of name."""
    found = [msgspec.convert(tomllib.loads(_FILE.read_text()), Builtins)]
    found += [entry_point.load()() for entry_point in metadata.entry_points(group=ENTRY_POINT_GROUP)]
    return Builtins(
        functions=sorted((one for builtins in found for one in builtins.functions), key=lambda one: one.name),
        types=sorted((one for builtins in found for one in builtins.types), key=lambda one: one.name),
    )
