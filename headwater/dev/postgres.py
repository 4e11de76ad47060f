"""A PostgreSQL that fsyncs every commit and requires a random password."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import ModuleType
from urllib.parse import quote

from headwater.dev.kind import Report
from headwater.dev.state import LOOPBACK, ServerRecord, made_whole, write_private
from headwater.schemas.errors import MissingDependency, ServerFailed
from headwater.schemas.extras import needs_extra

UNPRIVILEGED = 65534
"""PostgreSQL refuses to run as root; root runs it as this user (nobody)."""
USER = "headwater"
LEFTOVERS_TIMEOUT_SECONDS = 10
VERSIONS_FOLDER = Path("/usr/lib/postgresql")

CONFIG = """
listen_addresses = '{host}'
port = {port}
unix_socket_directories = ''
password_encryption = scram-sha-256
fsync = on
synchronous_commit = on
full_page_writes = on
max_connections = 200
shared_buffers = 64MB
dynamic_shared_memory_type = mmap
"""


class Postgres:
    name = "postgres"
    port_names = ("main",)
    stop_signal = signal.SIGINT
    ready_when = "it takes connections"
    """The fast shutdown; SIGTERM would wait for every client to leave."""

    def choose_data_dir(self, folder: Path) -> Path:
        """Beside the record, or in a place of its own if the unprivileged user cannot reach that folder."""
        if os.geteuid() != 0 or _others_can_reach(folder):
            return folder / "data"
        place = next((p for p in (Path("/var/tmp"), Path(tempfile.gettempdir())) if _others_can_reach(p)), None)  # noqa: S108
        if place is None:
            raise ServerFailed(f"No folder that user {UNPRIVILEGED} can reach.", remedy="Set dev_dir to one that it can.")
        home = Path(tempfile.mkdtemp(prefix="headwater-postgres-", dir=place))
        home.chmod(0o755)
        return home / "data"

    def prepare(self, record: ServerRecord, jar_cache: Path, report: Report) -> None:
        _driver()
        data = Path(record.data_dir)
        if not data.exists():
            report("making a database cluster")
            with made_whole(data) as unfinished, tempfile.TemporaryDirectory(dir=data.parent) as private:
                self._init(record.password, unfinished, Path(private))
        _wait_for_leftovers(data)
        settings = CONFIG.format(host=LOOPBACK, port=record.ports["main"])
        (data / "postgresql.auto.conf").write_text(settings)

    def _init(self, password: str, data: Path, private: Path) -> None:
        password_file = private / "password"
        write_private(password_file, password.encode())
        if os.geteuid() == 0:
            for path in (data, private, password_file):
                os.chown(path, UNPRIVILEGED, UNPRIVILEGED)
        options = ["--auth=scram-sha-256", f"--username={USER}", f"--pwfile={password_file}", "--encoding=UTF8", "--locale=C"]
        command = [*_as_unprivileged(), find_program("initdb"), *options, f"--pgdata={data}"]
        done = subprocess.run(command, cwd=data.parent, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode != 0:
            raise ServerFailed(f"initdb failed: {(done.stderr or done.stdout).strip()[-800:]}", server=self.name)

    def command(self, record: ServerRecord, jar_cache: Path) -> list[str]:
        return [*_as_unprivileged(), find_program("postgres"), "-D", record.data_dir]

    def is_ready(self, record: ServerRecord) -> bool:
        driver = _driver()
        try:
            driver.connect(self.url(record), connect_timeout=2).close()
        except driver.OperationalError:
            return False
        return True

    def url(self, record: ServerRecord) -> str:
        return f"postgresql://{USER}:{quote(record.password)}@{record.address}/postgres"


def _wait_for_leftovers(data: Path) -> None:
    """After kill -9 of the main process its workers end by themselves, but until then a new one refuses to start. It also
    refuses while a zombie has the pid in its lock file, which may be forever if nobody reaps orphans."""
    deadline = time.monotonic() + LEFTOVERS_TIMEOUT_SECONDS
    while any(_works_in(process, data) for process in Path("/proc").glob("[0-9]*")):
        if time.monotonic() > deadline:
            return
        time.sleep(0.02)
    if Path("/proc/self/cwd").exists():
        (data / "postmaster.pid").unlink(missing_ok=True)


def _works_in(process: Path, data: Path) -> bool:
    try:
        return (process / "cwd").readlink() == data
    except OSError:
        return False


def _driver() -> ModuleType:
    with needs_extra("a local PostgreSQL", "postgres"):
        import psycopg
    return psycopg


def find_program(name: str) -> str:
    """On PATH, where Debian and others keep each version, or where pg_config says."""
    versions = sorted(VERSIONS_FOLDER.glob("*/bin"), key=lambda folder: folder.parent.name.zfill(4), reverse=True)
    folders = [*os.get_exec_path(), *map(str, versions)]
    if found := shutil.which(name, path=os.pathsep.join(folders)):
        return found
    if pg_config := shutil.which("pg_config"):
        answer = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, check=False)  # noqa: S603
        if found := shutil.which(name, path=answer.stdout.strip()):
            return found
    raise MissingDependency(
        f"PostgreSQL's {name} is not on this machine.",
        remedy="Install PostgreSQL (Debian: apt-get install postgresql) or put its bin folder on PATH.",
        program=name,
    )


def _as_unprivileged() -> list[str]:
    if os.geteuid() != 0:
        return []
    if (setpriv := shutil.which("setpriv")) is None:
        raise MissingDependency(
            "PostgreSQL does not run as root and setpriv is not on this machine.",
            remedy="Install util-linux, or run as another user.",
        )
    return [setpriv, f"--reuid={UNPRIVILEGED}", f"--regid={UNPRIVILEGED}", "--clear-groups"]


def _others_can_reach(folder: Path) -> bool:
    folder = folder.absolute()
    return all(place.stat().st_mode & 0o001 for place in (folder, *folder.parents) if place.exists())
