"""A one-node Kafka that admits nobody without TLS, and without a password, a token or a client certificate."""

from __future__ import annotations

import contextlib
from pathlib import Path

from headwater.dev.kafka import PROPERTIES, Kafka, answers
from headwater.dev.kind import Report
from headwater.dev.secure.certificates import connected_with_certificate, ensure_certificates, tls_folder
from headwater.dev.state import LOOPBACK, ServerRecord

USER = "headwater"
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_SECURITY = "org.apache.kafka.common.security"
_PLAINTEXT = (
    "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
    "listeners=PLAINTEXT://{host}:{main},CONTROLLER://{host}:{controller}\n"
    "advertised.listeners=PLAINTEXT://{host}:{main}\n"
)
_SECURE = """listener.security.protocol.map=CONTROLLER:PLAINTEXT,USERS:SASL_SSL,CERTIFICATES:SSL
listeners=USERS://{host}:{main},CERTIFICATES://{host}:{certificates},CONTROLLER://{host}:{controller}
advertised.listeners=USERS://{host}:{main},CERTIFICATES://{host}:{certificates}
inter.broker.listener.name=CERTIFICATES
ssl.keystore.type=PEM
ssl.keystore.location={tls}/server-both.pem
ssl.truststore.type=PEM
ssl.truststore.location={tls}/ca.pem
listener.name.certificates.ssl.client.auth=required
listener.name.users.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER
listener.name.users.plain.sasl.jaas.config={security}.plain.PlainLoginModule required user_{user}="{password}";
listener.name.users.scram-sha-256.sasl.jaas.config={security}.scram.ScramLoginModule required;
listener.name.users.scram-sha-512.sasl.jaas.config={security}.scram.ScramLoginModule required;
listener.name.users.oauthbearer.sasl.jaas.config={security}.oauthbearer.OAuthBearerLoginModule required \
unsecuredLoginStringClaim_sub="broker";
"""


class SecureKafka(Kafka):
    """`main` accepts users (PLAIN, SCRAM, and OAUTHBEARER with unsigned tokens), `certificates` clients that have one."""

    name = "kafka-secure"
    port_names = ("main", "certificates", "controller")

    def prepare(self, record: ServerRecord, jar_cache: Path, report: Report) -> None:
        ensure_certificates(tls_folder(record))
        super().prepare(record, jar_cache, report)

    def properties(self, record: ServerRecord, data: Path) -> str:
        text = PROPERTIES.replace(_PLAINTEXT, _SECURE)
        given = {"tls": tls_folder(record), "security": _SECURITY, "user": USER, "password": record.password}
        return text.format(host=LOOPBACK, data=data, **given, **record.ports)

    def format_arguments(self, record: ServerRecord) -> list[str]:
        users = [f"{mechanism}=[name={USER},password={record.password}]" for mechanism in SCRAM]
        return [argument for user in users for argument in ("--add-scram", user)]

    def is_ready(self, record: ServerRecord) -> bool:
        with contextlib.suppress(OSError), connected_with_certificate(record, record.ports["certificates"]) as connection:
            return answers(connection)
        return False


def user_settings(record: ServerRecord, mechanism: str = "SCRAM-SHA-512") -> dict[str, str]:
    """The settings of Headwater for a user with a password."""
    return {
        "kafka_bootstrap": record.address,
        "kafka_security_protocol": "sasl_ssl",
        "kafka_ssl_ca_location": str(tls_folder(record) / "ca.pem"),
        "kafka_sasl_mechanism": mechanism,
        "kafka_sasl_username": USER,
        "kafka_sasl_password": record.password,
    }


def certificate_settings(record: ServerRecord) -> dict[str, str]:
    """The settings of Headwater for a client with a certificate."""
    folder = tls_folder(record)
    return {
        "kafka_bootstrap": f"{LOOPBACK}:{record.ports['certificates']}",
        "kafka_security_protocol": "ssl",
        "kafka_ssl_ca_location": str(folder / "ca.pem"),
        "kafka_ssl_certificate_location": str(folder / "client.pem"),
        "kafka_ssl_key_location": str(folder / "client.key"),
    }
