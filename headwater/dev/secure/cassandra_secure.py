"""A one-node Cassandra that admits nobody without TLS and a client certificate."""

from __future__ import annotations

import contextlib
from pathlib import Path
from urllib.parse import quote

from headwater.dev.cassandra import Cassandra, answers
from headwater.dev.kind import Report
from headwater.dev.secure.certificates import connected_with_certificate, ensure_certificates, tls_folder
from headwater.dev.state import ServerRecord


class SecureCassandra(Cassandra):
    name = "cassandra-secure"

    def prepare(self, record: ServerRecord, jar_cache: Path, report: Report) -> None:
        ensure_certificates(tls_folder(record))
        super().prepare(record, jar_cache, report)

    def config(self, record: ServerRecord) -> dict[str, object]:
        folder = tls_folder(record)
        files = {"private_key": (folder / "server.key").read_text() + (folder / "server.pem").read_text()}
        files["trusted_certificates"] = (folder / "ca.pem").read_text()
        factory = {"class_name": "org.apache.cassandra.security.PEMBasedSslContextFactory", "parameters": files}
        encryption = {"enabled": True, "optional": False, "require_client_auth": True, "ssl_context_factory": factory}
        return {**super().config(record), "client_encryption_options": encryption}

    def is_ready(self, record: ServerRecord) -> bool:
        with contextlib.suppress(OSError), connected_with_certificate(record, record.ports["main"]) as connection:
            return answers(connection)
        return False

    def url(self, record: ServerRecord) -> str:
        folder = tls_folder(record)
        files = {"tls_ca": "ca.pem", "tls_certificate": "client.pem", "tls_key": "client.key"}
        options = "&".join(f"{option}={quote(str(folder / file))}" for option, file in files.items())
        return f"{super().url(record)}?tls=require&{options}"
