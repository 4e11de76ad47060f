"""buf, and a program in Go that is built of the published protos as a reader of docs/grpc.md would."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.servers.installed_tools import installed, run_install

BUF = "@bufbuild/buf@1.74.0"
GO_PLUGINS = ("google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.11", "google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2")
PROTOS = Path(__file__).parents[3] / "proto"
NODE_REMEDY = "Install Node.js with npm: buf comes with it."
GO_REMEDY = "Install Go: a client is built with it."


def buf() -> Path:
    """The program."""

    def install(folder: Path) -> None:
        command = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--prefix", str(folder), BUF]
        run_install(command, NODE_REMEDY, folder)

    return installed("buf-1.74.0", install) / "node_modules" / ".bin" / "buf"


def go_client(folder: Path, generation: str, module: str, program: str) -> Path:
    """Built in the folder, of the files that the docs show."""
    path = {"PATH": f"{_plugins()}:{os.environ['PATH']}"}
    (folder / "buf.gen.yaml").write_text(generation)
    run_install([str(buf()), "generate", str(PROTOS)], NODE_REMEDY, folder, **path)
    (folder / "go.mod").write_text(module)
    (folder / "main.go").write_text(program)
    run_install(["go", "mod", "tidy"], GO_REMEDY, folder)
    run_install(["go", "build", "-o", "client", "."], GO_REMEDY, folder)
    return folder / "client"


def _plugins() -> Path:
    def install(folder: Path) -> None:
        for plugin in GO_PLUGINS:
            run_install(["go", "install", plugin], GO_REMEDY, folder, GOBIN=str(folder))

    return installed("protoc-gen-go-1.36.11", install)
