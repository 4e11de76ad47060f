"""Cassandra's snapshots are put back as docs/backup.md says: what the backup holds is whole, and who remembers more is told."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cassandra.cluster import Cluster, Session

import headwater
from headwater import IcebergTable, Put
from headwater.dev.cassandra import EXPORTS, OPENS
from headwater.dev.jars import class_path, fetch_jars
from headwater.dev.java import java_program
from headwater.dev.server import Server
from headwater.embedded import CatalogHandle, Headwater
from headwater.schemas.errors import CursorReset
from headwater.settings import load_settings
from tests.support.servers.ports import free_port
from tests.support.servers.servers import create_cassandra_keyspace, local_server

SOAK = os.environ.get("HEADWATER_SOAK") == "1"
FIRST = ("pointers", "mutable_rows", "names", "mutable_row_names", "headwater_schema")
THEN = ("objects",)


class Node:
    """One Cassandra that nodetool reaches."""

    def __init__(self, server: Server, jmx_port: int) -> None:
        self.store_url = create_cassandra_keyspace(server.url)
        self.keyspace = urlsplit(self.store_url).path.strip("/")
        self._server, self._jmx_port = server, jmx_port
        self._tables = Path(server.record.data_dir) / "data" / self.keyspace

    def nodetool(self, *arguments: str) -> None:
        jars = fetch_jars("cassandra", Path(load_settings().jar_cache_dir))
        opened = [*(f"--add-exports={package}=ALL-UNNAMED" for package in EXPORTS)]
        opened += [f"--add-opens={package}=ALL-UNNAMED" for package in OPENS]
        home = f"-Duser.home={self._server.folder}"
        tool = [java_program(), *opened, home, "-cp", class_path(jars), "org.apache.cassandra.tools.NodeTool"]
        command = [*tool, "-h", "127.0.0.1", "-p", str(self._jmx_port), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def snapshot(self, tag: str, tables: tuple[str, ...]) -> None:
        self.nodetool("snapshot", "-t", tag, "-kt", ",".join(f"{self.keyspace}.{table}" for table in tables))

    def put_back(self, tags: dict[str, tuple[str, ...]]) -> None:
        with self._session() as session:
            rows = session.execute("SELECT table_name FROM system_schema.tables WHERE keyspace_name = %s", (self.keyspace,))
            for row in rows:
                session.execute(f"TRUNCATE {self.keyspace}.{row.table_name}", timeout=60)
            session.execute("TRUNCATE system.paxos", timeout=60)
        for tag, tables in tags.items():
            for table in tables:
                (folder,) = self._tables.glob(f"{table}-*")
                for file in (folder / "snapshots" / tag).iterdir():
                    if file.suffix not in (".json", ".cql"):
                        shutil.copy2(file, folder)
                self.nodetool("refresh", self.keyspace, table)

    def _session(self) -> _Session:
        return _Session(self._server.url)


class _Session:
    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._cluster = Cluster([address.hostname], port=address.port)

    def __enter__(self) -> Session:
        return self._cluster.connect()

    def __exit__(self, *_: object) -> None:
        self._cluster.shutdown()


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    jmx_port = free_port()
    monkeypatch.setenv("JDK_JAVA_OPTIONS", f"-Dcassandra.jmx.local.port={jmx_port}")
    with local_server("cassandra") as server:
        monkeypatch.delenv("JDK_JAVA_OPTIONS")
        yield Node(server, jmx_port)


class Committer(threading.Thread):
    """Commits until it is stopped, on main and on a branch that it merges."""

    def __init__(self, lake: CatalogHandle) -> None:
        super().__init__(daemon=True)
        self.count = 0
        self._lake = lake
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.is_set():
            self.count += 1
            commit(self._lake, "dev" if self.count % 3 else "main", f"t{self.count}")
            if self.count % 5 == 0:
                self._lake.merge("dev", "main")

    def stop(self) -> None:
        self._stopped.set()
        self.join(60)
        assert not self.is_alive()


def commit(lake: CatalogHandle, branch: str, name: str) -> None:
    lake.branch(branch).commit([Put((name,), IcebergTable(f"s3://lake/{name}"))], request_id=f"request-{name}")


def ids(engine: Headwater) -> list[str]:
    return [change.entry_id for change in engine.realm().catalog("lake").branch().changes()]


if SOAK:  # a server of its own, and eight starts of nodetool

    @pytest.mark.timeout(600)
    def test_snapshots_taken_under_a_writer_restore_to_a_whole_store(node: Node) -> None:
        with headwater.open(node.store_url, create=True) as engine:
            lake = engine.ensure_realm().ensure_catalog("lake")
            lake.create_branch("dev")
            for number in range(10):
                commit(lake, "main", f"first{number}")
            before, incarnation = ids(engine), engine.store.incarnation
            writer = Committer(lake)
            writer.start()
            node.snapshot("nightly-1", FIRST)
            between = writer.count
            node.snapshot("nightly-2", THEN)
            while writer.count < between + 20:
                threading.Event().wait(0.05)
            writer.stop()
            commit(lake, "main", "lost")
            everything = ids(engine)

        node.put_back({"nightly-1": FIRST, "nightly-2": THEN})
        run = [sys.executable, "-m", "headwater", "--store", node.store_url]
        subprocess.run([*run, "store", "restored", "--reason", "test"], check=True, env=dict(os.environ))

        with headwater.open(node.store_url) as engine:
            assert engine.store.incarnation != incarnation
            kept = ids(engine)
            assert len(before) <= len(kept) < len(everything) and kept == everything[: len(kept)]
            restored = engine.realm().catalog("lake")
            main = restored.branch()
            assert next(iter(main.changes(after=kept[-2]))).entry_id == kept[-1]
            with pytest.raises(CursorReset):
                list(main.changes(after=everything[-1]))
            commit(restored, "main", "lost")
            commit(restored, "main", "lost")
            restored.merge("dev", "main")
            after = list(main.changes())
            assert [change.seq for change in after] == list(range(1, len(after) + 1))
            assert sum(change.request_id == "request-lost" for change in after) == 1
        subprocess.run([*run, "maintain", "check"], check=True)
