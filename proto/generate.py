"""Generates schemas/rpc from the sources beside it; with --check compares instead, and names the files that differ.

The modules lie flat in one package, and their imports are rewritten: `io`, with which the packages begin, is a standard module.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

import grpc_tools
from grpc_tools import protoc

SOURCES = Path(__file__).parent
TARGET = SOURCES.parent / "schemas" / "rpc"
INCLUDED = Path(grpc_tools.__file__).parent / "_proto"
_IMPORT = re.compile(r"^from io\.headwater[.\w]* import (\w+_pb2)", re.MULTILINE)


def generated() -> dict[str, str]:
    """The text of each module and its stub, by file name."""
    files = sorted(str(file.relative_to(SOURCES)) for file in SOURCES.rglob("*.proto"))
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["protoc", f"-I{SOURCES}", f"-I{INCLUDED}", f"--python_out={folder}", f"--pyi_out={folder}", *files]
        if protoc.main(arguments) != 0:
            raise SystemExit("protoc failed")
        return {file.name: _rewritten(file.read_text()) for file in sorted(Path(folder).rglob("*_pb2.py*"))}


def _rewritten(text: str) -> str:
    return _IMPORT.sub(r"from headwater.schemas.rpc import \1", text)


def main() -> int:
    texts = generated()
    stale = {file.name for file in TARGET.glob("*_pb2.py*")} - texts.keys()
    if "--check" in sys.argv[1:]:
        differing = sorted(stale | {name for name, text in texts.items() if not _is(TARGET / name, text)})
        for name in differing:
            print(f"schemas/rpc/{name} is not what proto/ generates: run `make protos`.", file=sys.stderr)
        return bool(differing)
    for name in stale:
        (TARGET / name).unlink()
    for name, text in texts.items():
        (TARGET / name).write_text(text)
    return 0


def _is(file: Path, text: str) -> bool:
    return file.exists() and file.read_text() == text


if __name__ == "__main__":
    raise SystemExit(main())
