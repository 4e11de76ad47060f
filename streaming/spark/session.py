"""Starts a SparkSession that can read the log, on this machine or on a cluster.

This is the only place that creates a session. It sets what otherwise breaks silently: the Python of the workers, the address
that the driver binds to, the working folder on the workers' path, the package on the executors.
"""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from headwater.schemas.errors import HeadwaterError, InvalidInput, MissingDependency
from headwater.schemas.extras import needs_extra
from headwater.streaming.spark import worker_daemon
from headwater.streaming.spark.package_zip import write_package_zip
from headwater.streaming.tcp_probe import is_reachable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"
STANDALONE, KUBERNETES, YARN, LOCAL_CLUSTER = "spark://", "k8s://", "yarn", "local-cluster["
PROXIES = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
YARN_FOLDERS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
NEVER_SHOWN = "(?i)url|store|password|secret|token"
"""Options of a read whose values are not printed in plans: a store's URL may hold a password."""


class SparkOptions(msgspec.Struct, frozen=True, kw_only=True):
    master: str = "local[*]"
    """Any master that Spark accepts: local[N], spark://host:port, yarn, k8s://…"""
    app_name: str = "headwater"
    driver_memory: str = "2g"
    log_level: str = "ERROR"
    """What Spark prints on stderr."""
    jars: tuple[str, ...] = ()
    conf: dict[str, str] = {}
    """Applied last: these settings win."""


def spark_session(options: SparkOptions | None = None) -> SparkSession:
    """The running session if there is one, else a new one; both formats, `headwater` and `headwater_rows`, are registered in
    it."""
    options = options or SparkOptions()
    session = running_session()
    if session is None:
        with _environment(options):
            session = _started(options)
        if not is_local(options.master):
            session.sparkContext.addPyFile(_package_zip())
    register_sources(session)
    return session


def running_session() -> SparkSession | None:
    """The session that this thread started. The active one may be another: a batch of a stream runs in a clone of its session,
    which becomes active as soon as the batch creates a DataFrame of local rows, and stays so after the stream has ended."""
    session_class = _spark_session_class()
    return None if session_class.getActiveSession() is None else session_class.builder.getOrCreate()


def register_sources(session: SparkSession) -> None:
    """Register the formats in a session that was created elsewhere. From then on filters are pushed down into them."""
    from headwater.streaming.sources.log_source import LogSource
    from headwater.streaming.sources.rows_source import RowsSource

    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    for source in (LogSource, RowsSource):
        session.dataSource.register(source)


def is_local(master: str) -> bool:
    """Whether executors are threads of the driver: then nothing is shipped and nothing listens beyond this machine."""
    return master == "local" or master.startswith("local[")


def session_conf(options: SparkOptions) -> dict[str, str]:
    """Every setting that the session starts with, the caller's own last."""
    conf = {
        "spark.driver.memory": options.driver_memory,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.redaction.options.regex": NEVER_SHOWN,
        "spark.executorEnv.PYTHONSAFEPATH": "1",  # otherwise a worker imports what is in its working folder
        "spark.ui.showConsoleProgress": "false",
    }
    if is_local(options.master):
        conf |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK, "spark.ui.enabled": "false"}
        conf |= {"spark.sql.shuffle.partitions": str(_local_parallelism(options.master))}
        if worker_daemon.is_usable_here(options.conf):
            conf["spark.python.daemon.module"] = worker_daemon.MODULE
    if options.jars:
        conf["spark.jars"] = ",".join(options.jars)
    return conf | options.conf


def parse_conf(text: str) -> dict[str, str]:
    """`NAME=VALUE NAME=VALUE …` as a map; a value with blanks is quoted as in a shell."""
    try:
        pairs = [pair.partition("=") for pair in shlex.split(text)]
    except ValueError as error:
        raise InvalidInput(f"a quote is not closed: {text!r}.", field="spark_conf", remedy="Close it.") from error
    bad = next((name for name, equals, _ in pairs if not equals or not name.startswith("spark.")), None)
    if bad is not None:
        raise InvalidInput(
            f"{bad!r} is not a Spark setting.", field="spark_conf", remedy="Write spark.name=value, blank between."
        )
    return {name: value for name, _, value in pairs}


def require_master(master: str) -> None:
    """Checks the master first: Spark itself would try for minutes and print pages of stack traces."""
    scheme = next((one for one in (STANDALONE, KUBERNETES) if master.startswith(one)), "")
    if not (is_local(master) or master == YARN or master.startswith(LOCAL_CLUSTER) or scheme):
        raise InvalidInput(
            f"{master!r} is not a Spark master.",
            field="spark_master",
            remedy="Write local[N], local[*], spark://host:port, yarn or k8s://https://host:port.",
        )
    if master == YARN and not any(os.environ.get(name) for name in YARN_FOLDERS):
        raise MissingDependency(
            "master 'yarn' without the configuration of a cluster.",
            field="spark_master",
            remedy=f"Set {YARN_FOLDERS[0]} to the folder of its core-site.xml and yarn-site.xml.",
        )
    by_proxy = scheme == KUBERNETES and any(os.environ.get(name) for name in PROXIES)
    if scheme and not by_proxy and not is_reachable(_addresses(master.removeprefix(scheme))):
        raise MissingDependency(
            f"no Spark master answers at {master!r}.",
            field="spark_master",
            remedy="Start it, or name another: local[*] needs none.",
        )


def _addresses(places: str) -> list[str]:
    """host:port of a master, or of the API server that follows k8s://, whose port may be left out."""
    if "://" not in places:
        return places.split(",")
    at = urlsplit(places)
    has_port = at.netloc.rpartition(":")[2].isdecimal()
    return [at.netloc if has_port else f"{at.netloc}:{80 if at.scheme == 'http' else 443}"]


def _started(options: SparkOptions) -> SparkSession:
    require_master(options.master)
    builder = _spark_session_class().builder.master(options.master).appName(options.app_name)
    for name, value in session_conf(options).items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except HeadwaterError:
        raise
    except Exception as error:
        reason = str(error).strip().splitlines()
        raise MissingDependency(
            f"Spark did not start with master {options.master!r}: {reason[0] if reason else type(error).__name__}.",
            field="spark_master",
            remedy="Check the master URL, that it can be reached, and what Spark printed above.",
        ) from error
    session.sparkContext.setLogLevel(options.log_level)
    return session


@contextmanager
def _environment(options: SparkOptions) -> Iterator[None]:
    """Read by PySpark and the JVM before any setting; the JVM passes it on to its workers. Restored afterwards, for other
    programs that this process starts."""
    wanted = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, "PYTHONSAFEPATH": "1"}
    if is_local(options.master):
        wanted["SPARK_LOCAL_IP"] = LOOPBACK
    added = [name for name in wanted if name not in os.environ]
    os.environ.update({name: wanted[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def _local_parallelism(master: str) -> int:
    inside = master.removeprefix("local").strip("[]").partition(",")[0]
    return int(inside) if inside.isdecimal() else (os.cpu_count() or 1) if inside == "*" else 1


def _package_zip() -> str:
    folder = Path(tempfile.mkdtemp(prefix="headwater-package-"))
    return str(write_package_zip(folder))


def _spark_session_class() -> type[SparkSession]:
    with needs_extra("a Spark job", "spark"):
        from pyspark.sql import SparkSession
    return SparkSession


def jar_paths(folder: Path) -> Sequence[str]:
    """The value of `spark.jars`, in a fixed order."""
    return [str(jar) for jar in sorted(folder.glob("*.jar"))]
