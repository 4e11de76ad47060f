"""PostgreSQL: sessions that were opened while the server was read-only (a switchover, a failover, a proxy that still led to the old primary)
stay in the pool forever: each write on them is refused with "read-only", although every new session could write. The process takes no
commits until it is started again.

A connection is put back into the pool after any answer of severity ERROR, also after 25006; nothing recycles it, and the error counts
as final (StoreRefused), so nobody tries again. Here the database's default_transaction_read_only plays the standby: it holds for
sessions that begin while it is set, as a connection to the old primary would.

Exits 1 if commits are still refused although the server takes writes again, 0 if not, 2 if there is no PostgreSQL to try it on.
Run from the project's root: .venv/bin/python tests/findings/n17_read_only_sessions_stay_in_the_pool.py   (PostgreSQL's programs; about 15 s)
HEADWATER_POSTGRES=postgresql://… uses a server that runs (a database is made in it).
"""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.getcwd())
import psycopg

import headwater
from headwater import IcebergTable, Put
from tests.support.servers.servers import create_postgres_database

server = os.environ.get("HEADWATER_POSTGRES", "")
if not server:
    folder = tempfile.mkdtemp(prefix="hw-n17-")
    os.chmod(folder, 0o755)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    dev = [sys.executable, "-m", "headwater", "--set", f"dev_dir={folder}/dev", "dev"]
    if subprocess.run([*dev, "up", "postgres"], stdout=subprocess.DEVNULL).returncode:
        print("there is no PostgreSQL: install its programs, or name a server in HEADWATER_POSTGRES")
        sys.exit(2)
    atexit.register(lambda: subprocess.run([*dev, "down", "--delete", "postgres"], stdout=subprocess.DEVNULL))
    server = subprocess.run([*dev, "url", "postgres"], check=True, capture_output=True, text=True).stdout.strip()
url = create_postgres_database(server)
name = url.rsplit("/", 1)[1].partition("?")[0]
admin = psycopg.connect(server, autocommit=True)
put = lambda table: [Put((table,), IcebergTable(f"s3://{table}"))]


def attempt(engine, table):
    try:
        return f"entry {engine.realm().catalog('lake').branch().commit(put(table)).seq}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


engine = headwater.open(url, create=True)
engine.ensure_realm().ensure_catalog("lake")
print("before:", attempt(engine, "a"))
admin.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')  # the server steps down …
admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
time.sleep(0.5)
print("while it is read-only:", attempt(engine, "b"))
admin.execute(f'ALTER DATABASE "{name}" RESET default_transaction_read_only')  # … and takes writes again
with headwater.open(url) as other:
    print("another process now:", attempt(other, "c"))
after = []
for _ in range(10):
    after.append(attempt(engine, f"d{len(after)}"))
    time.sleep(0.5)
print("this process, in the five seconds after:", after[0], "…", after[-1])
try:
    engine.close()
except Exception as error:
    print("closing fails too:", type(error).__name__)
if not after[-1].startswith("entry"):
    print("DEFECT: the process continues writing into read-only sessions of its pool")
    sys.exit(1)
print("closed")
