"""A Hive metastore with a notification log, on an embedded database."""

from __future__ import annotations

import signal
from pathlib import Path

from headwater.dev.jars import class_path, fetch_jars
from headwater.dev.java import java_program
from headwater.dev.kind import Report
from headwater.dev.state import LOOPBACK, ServerRecord
from headwater.schemas.errors import HeadwaterError

LAUNCHER = "LoopbackMetastore.java"
SOURCE = """\
import java.net.InetSocketAddress;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.IHMSHandler;
import org.apache.hadoop.hive.metastore.RetryingHMSHandler;
import org.apache.hadoop.hive.metastore.TSetIpAddressProcessor;
import org.apache.hadoop.hive.metastore.conf.MetastoreConf;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TServerSocket;

/** The metastore's own main class listens on all interfaces; this one listens on loopback. */
public class LoopbackMetastore {
  public static void main(String[] settings) throws Exception {
    Configuration conf = MetastoreConf.newMetastoreConf();
    for (String one : settings) {
      conf.set(one.substring(0, one.indexOf('=')), one.substring(one.indexOf('=') + 1));
    }
    HiveMetaStore.HMSHandler inner = new HiveMetaStore.HMSHandler("metastore", conf, false);
    IHMSHandler handler = RetryingHMSHandler.getProxy(conf, inner, true);
    TServerSocket socket = new TServerSocket(new InetSocketAddress("127.0.0.1", conf.getInt("port", 0)));
    new TThreadPoolServer(new TThreadPoolServer.Args(socket)
        .processor(new TSetIpAddressProcessor<IHMSHandler>(handler))
        .protocolFactory(new TBinaryProtocol.Factory())).serve();
  }
}
"""


class Hive:
    name = "hive"
    port_names = ("main",)
    stop_signal = signal.SIGTERM
    ready_when = "it answers calls"

    def choose_data_dir(self, folder: Path) -> Path:
        return folder / "data"

    def prepare(self, record: ServerRecord, jar_cache: Path, report: Report) -> None:
        fetch_jars("hive", jar_cache, report)
        data = Path(record.data_dir)
        data.mkdir(exist_ok=True)
        (data / LAUNCHER).write_text(SOURCE)

    def command(self, record: ServerRecord, jar_cache: Path) -> list[str]:
        data, hive = record.data_dir, "org.apache.hadoop.hive.metastore"
        settings = {
            "port": str(record.ports["main"]),
            "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={data}/metastore;create=true",
            "datanucleus.schema.autoCreateAll": "true",
            "metastore.schema.verification": "false",
            "metastore.warehouse.dir": f"file://{data}/warehouse",
            "metastore.transactional.event.listeners": "org.apache.hive.hcatalog.listener.DbNotificationListener",
            "metastore.metastore.event.db.notification.api.auth": "false",
            "metastore.expression.proxy": f"{hive}.DefaultPartitionExpressionProxy",
            "metastore.task.threads.always": f"{hive}.events.EventCleanerTask",
        }
        return [
            java_program(),
            *("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            f"-Dderby.stream.error.file={data}/derby.log",
            *("-cp", class_path(fetch_jars("hive", jar_cache))),
            f"{data}/{LAUNCHER}",
            *(f"{name}={value}" for name, value in settings.items()),
        ]

    def is_ready(self, record: ServerRecord) -> bool:
        from headwater.service.reconciling.sources.thrift_calls import ThriftCalls  # with this kind alone

        calls = ThriftCalls(LOOPBACK, record.ports["main"])
        try:
            return 0 in calls.call("get_current_notificationEventId")
        except HeadwaterError:
            return False
        finally:
            calls.close()

    def url(self, record: ServerRecord) -> str:
        return f"thrift://{record.address}"
