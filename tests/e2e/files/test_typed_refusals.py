"""What an operator types wrongly, and storage that refuses or fails: one line that names the fault, and nothing is deleted."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from headwater.streaming.files.sweep.file_sweep import FileSweepOptions
from tests.support.fixtures.cli_runs import CliRun, headwater
from tests.support.fixtures.swept_lake import SweptLake, swept_lake
from tests.support.servers.moto_server import BUCKET, moto_server, moto_with_sessions

NO_WAITING = ("--grace", "24", "--confirm", "0", "--share", "1")
PAGE_FILES = 2


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[SweptLake]:
    with swept_lake(tmp_path, url=f"sqlite:///{tmp_path}/store.db") as made:
        made.put("t", made.table("t").metadata_location)
        made.table("orphan")
        yield made


def typed(lake: SweptLake, *arguments: str, options: dict[str, str] | None = None) -> CliRun:
    words = shlex.join(f"{name}={value}" for name, value in (options or {}).items())
    return headwater("--set", f"storage_options={words}", "--store", lake.url, "maintain", "files", *arguments)


def refused(done: CliRun, *words: str) -> None:
    """Exit code 2 and one line, or 1 with a line for each root."""
    assert done.code in (1, 2) and "Traceback" not in done.err, done
    assert done.code == 1 or (done.out == "" and done.err.count("\n") == 1), done
    assert all(word in done.err for word in words), done.err


def test_a_location_outside_of_the_claimed_root_is_refused(lake: SweptLake, tmp_path: Path) -> None:
    theirs = tmp_path / "elsewhere" / "a.parquet"
    theirs.parent.mkdir()
    theirs.write_bytes(b"rows")
    names = tmp_path / "names.txt"
    names.write_text(f"{lake.root}/db/orphan/data/a.parquet\n{lake.root}/../elsewhere/a.parquet\n")
    before = lake.files()
    for arguments in (
        ("--location", f"file://{theirs.parent}"),
        ("--location", f"{lake.root}/../elsewhere"),
        ("--location", "file:///etc"),
        ("--from", str(names)),
        ("--metadata", f"file://{theirs}"),
    ):
        assert typed(lake, "purge", *arguments, "--older-than", "0").error
    assert typed(lake, "sweep", "--root", f"file://{theirs.parent}").error
    assert theirs.exists() and lake.files() == before


def test_a_root_that_another_store_has_claimed_is_refused(lake: SweptLake, tmp_path: Path) -> None:
    before = lake.files()
    with swept_lake(tmp_path / "theirs") as other:
        claim = Path(lake.root.removeprefix("file://")) / "_headwater" / "root.json"
        ours = claim.read_text()
        claim.write_text(ours.replace(lake.store.incarnation, other.store.incarnation))
    for command in (("sweep", *NO_WAITING), ("claim",), ("purge", "--location", lake.root, "--older-than", "0")):
        refused(typed(lake, *command), "is claimed by", lake.root, other.store.incarnation, "claim --force")
    assert lake.files() == before
    claim.unlink()
    refused(typed(lake, "sweep", *NO_WAITING), "is not claimed by this store", "headwater maintain files claim")
    assert lake.files() == before


def test_metadata_of_an_unknown_version_is_refused_by_name(lake: SweptLake) -> None:
    lake.sweep()
    location = lake.writer.load_table("db.t").metadata_location
    path = Path(location.removeprefix("file://"))
    path.write_text(path.read_text().replace('"format-version":2', '"format-version":9'))
    before = lake.files()
    refused(typed(lake, "sweep", *NO_WAITING), "format version 9", "'t' (branch main)", location, "--accept-missing")
    refused(typed(lake, "identify", location), "format version 9", "Upgrade Headwater")
    refused(typed(lake, "purge", "--metadata", location), "format version 9")
    assert lake.files() == before


@pytest.mark.parametrize("secret", ["wrong", "none"])
def test_wrong_credentials_are_refused_and_nothing_is_deleted(tmp_path: Path, secret: str) -> None:
    with moto_with_sessions() as moto:
        known = {**moto.options}
        with swept_lake(tmp_path, f"s3://{BUCKET}/lake", known, url=f"sqlite:///{tmp_path}/store.db") as lake:
            lake.put("t", lake.table("t").metadata_location)
            lake.table("orphan")
            lake.sweep()
            before = lake.files()
            wrong = {**known, "s3.secret-access-key": "wrong"}
            if secret == "none":
                wrong = {**known, "s3.access-key-id": "nobody", "s3.secret-access-key": "nothing"}
            for command in (("sweep", *NO_WAITING), ("claim",), ("find", lake.root), ("purge", "--location", lake.root)):
                refused(typed(lake, *command, options=wrong))
            assert lake.files() == before


class FailingPages(ThreadingHTTPServer):
    """In front of S3: pages of two files, the seventh of which is an error."""

    daemon_threads = True

    def __init__(self, url: str) -> None:
        super().__init__(("127.0.0.1", 0), _Pages)
        self.url = url
        self.is_failing = False
        self.pages = 0
        self.failed = 0


class _Pages(BaseHTTPRequestHandler):
    server: FailingPages
    protocol_version = "HTTP/1.1"

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = self.path
        if "list-type=2" in path:
            path += f"&max-keys={PAGE_FILES}"
            self.server.pages = self.server.pages + 1 if "continuation-token" in path else 1
            if self.server.is_failing and self.server.pages >= 7:
                self.server.failed += 1
                return self._answer(403, {}, b"<Error><Code>AccessDenied</Code></Error>")
        named = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "content-length")}
        answer = httpx.request(self.command, f"{self.server.url}{path}", headers=named, content=body, timeout=60)
        return self._answer(answer.status_code, dict(answer.headers), answer.content)

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in ("content-length", "connection", "transfer-encoding", "date", "server", "content-encoding"):
                self.send_header(name, value)
        length = headers.get("content-length") if self.command == "HEAD" else None
        self.send_header("Content-Length", length or str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass_on  # noqa: N815 - names of the standard library

    def log_message(self, *_: Any) -> None:
        pass


def test_a_listing_that_fails_on_its_seventh_page_deletes_nothing(tmp_path: Path) -> None:
    with moto_server() as moto, FailingPages(moto.url) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        options = {**moto.options, "s3.endpoint": f"http://127.0.0.1:{proxy.server_port}"}
        with swept_lake(tmp_path, f"s3://{BUCKET}/lake", moto.options, url=f"sqlite:///{tmp_path}/store.db") as lake:
            lake.put("t", lake.table("t", 4).metadata_location)
            orphan = lake.needed(lake.table("orphan").metadata_location)
            lake.sweep(FileSweepOptions(grace_hours=0, confirm_hours=0, share_max=1))
            before = lake.files()
            assert len(before) > 7 * PAGE_FILES
            proxy.is_failing = True
            for command in (
                ("sweep", *NO_WAITING),
                ("find", lake.root),
                ("purge", "--location", lake.root, "--older-than", "0"),
            ):
                failed = proxy.failed
                refused(typed(lake, *command, options=options))
                assert proxy.failed > failed, command
                assert lake.files() == before
            proxy.is_failing = False
            done = typed(lake, "purge", "--location", lake.root, "--older-than", "0", options=options)
            assert done.code == 0 and lake.files() == before - orphan, done
        proxy.shutdown()
