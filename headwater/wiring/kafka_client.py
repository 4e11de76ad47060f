"""One configuration of Kafka clients from the settings, spelled for each library: librdkafka, aiokafka and Java (Spark).

Every command that talks to Kafka gets its client from here. ⚠ A setting that cannot be honoured is an error, never ignored: a
reader that fell back to plaintext would send a password in the clear, or trust any broker.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import msgspec

from headwater.schemas.errors import InvalidInput
from headwater.settings import Settings

OURS = frozenset(
    {"transactional.id", "enable.idempotence", "acks", "isolation.level", "enable.auto.commit", "enable.partition.eof"}
)
"""Settings that may not be overridden: records would be lost or duplicated."""
SECURITY = ("security.", "sasl.", "ssl.", "enable.ssl.", "enable.sasl.", "bootstrap.", "metadata.broker.list")
"""Options that have settings of their own, which every client honours."""
_SASL = ("kafka_sasl_mechanism", "kafka_sasl_username", "kafka_sasl_password", "kafka_oauth_token_url", "kafka_oauth_scope")
_TLS = (
    "kafka_ssl_ca_location",
    "kafka_ssl_certificate_location",
    "kafka_ssl_key_location",
    "kafka_ssl_key_password",
)


class KafkaClient(msgspec.Struct, frozen=True, kw_only=True):
    """Where the brokers are and who connects to them. Checked: the files exist and match each other."""

    bootstrap: str
    protocol: str = "plaintext"
    mechanism: str = ""
    username: str = ""
    password: str = ""
    token_url: str = ""
    scope: str = ""
    ca: str = ""
    certificate: str = ""
    key: str = ""
    key_password: str = ""
    tuning: dict[str, str] = {}
    """More settings of librdkafka, for the publisher alone."""

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("ssl")

    @property
    def has_sasl(self) -> bool:
        return self.protocol.startswith("sasl")

    # ── one client, three spellings ─────────────────────────────────────────────────────────────────────────

    def librdkafka(self) -> dict[str, str]:
        given = {
            "security.protocol": self.protocol,
            "ssl.ca.location": self.ca,
            "ssl.certificate.location": self.certificate,
            "ssl.key.location": self.key,
            "ssl.key.password": self.key_password,
            "sasl.mechanism": self.mechanism,
        }
        if self.mechanism == "OAUTHBEARER":
            given |= {
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.token.endpoint.url": self.token_url,
                "sasl.oauthbearer.client.id": self.username,
                "sasl.oauthbearer.client.secret": self.password,
                "sasl.oauthbearer.scope": self.scope,
            }
        else:
            given |= {"sasl.username": self.username, "sasl.password": self.password}
        return {name: value for name, value in given.items() if value} | self.tuning

    def aiokafka(self) -> dict[str, Any]:
        given: dict[str, Any] = {"security_protocol": self.protocol.upper()}
        if self.has_tls:
            given["ssl_context"] = self.ssl_context()
        if self.mechanism == "OAUTHBEARER":
            from headwater.consumers.kafka.oauth_tokens import OAuthTokens

            tokens = OAuthTokens(self.token_url, self.username, self.password, self.scope)
            given |= {"sasl_mechanism": self.mechanism, "sasl_oauth_token_provider": tokens}
        elif self.has_sasl:
            given |= {"sasl_mechanism": self.mechanism, "sasl_plain_username": self.username}
            given["sasl_plain_password"] = self.password
        return given

    def faust(self) -> Any:
        """Credentials of a faust app; None for plaintext."""
        import faust.auth

        context = self.ssl_context() if self.has_tls else None
        if self.mechanism == "OAUTHBEARER":
            return faust.auth.OAuthCredentials(oauth_cb=self.aiokafka()["sasl_oauth_token_provider"], ssl_context=context)
        if self.has_sasl:
            return faust.SASLCredentials(
                username=self.username, password=self.password, mechanism=self.mechanism, ssl_context=context
            )
        return None if context is None else faust.SSLCredentials(context)

    def java(self) -> dict[str, str]:
        """PEM files unchanged: Kafka's Java client reads them since 2.7."""
        given = {"security.protocol": self.protocol.upper()}
        if self.ca:
            given |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": Path(self.ca).read_text()}
        if self.certificate:
            given |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": Path(self.certificate).read_text(),
                "ssl.keystore.key": Path(self.key).read_text(),
            }
            if self.key_password:
                given["ssl.key.password"] = self.key_password
        if self.has_sasl:
            given |= {"sasl.mechanism": self.mechanism, "sasl.jaas.config": self._jaas()}
        return given

    def _jaas(self) -> str:
        security = "org.apache.kafka.common.security"
        if self.mechanism == "OAUTHBEARER":
            raise InvalidInput(
                "Spark's Kafka source takes no OAUTHBEARER from us.",
                field="kafka_sasl_mechanism",
                remedy="Use SCRAM, PLAIN or a client certificate for Spark, or read the store's log.",
            )
        module = "plain.PlainLoginModule" if self.mechanism == "PLAIN" else "scram.ScramLoginModule"
        return f"{security}.{module} required username={_quoted(self.username)} password={_quoted(self.password)};"

    def ssl_context(self) -> ssl.SSLContext:
        """`InvalidInput` if a file is missing or is not what it should be."""
        try:
            context = ssl.create_default_context(cafile=self.ca or None)
        except (OSError, ssl.SSLError) as error:
            raise _unreadable("kafka_ssl_ca_location", self.ca, "PEM certificates", error) from error
        if self.certificate:
            try:
                context.load_cert_chain(self.certificate, self.key, lambda: self.key_password)
            except (OSError, ssl.SSLError) as error:
                what = "a PEM certificate and its key, or the password is wrong,"
                raise _unreadable("kafka_ssl_key_location", f"{self.certificate} and {self.key}", what, error) from error
        return context


def kafka_client(settings: Settings, bootstrap: str | None = None) -> KafkaClient:
    """Checked before anything is connected to."""
    brokers = bootstrap or settings.kafka_bootstrap
    if not brokers:
        raise InvalidInput("no brokers are named.", field="kafka_bootstrap", remedy="Use --kafka HOST:PORT.")
    client = KafkaClient(
        bootstrap=brokers,
        protocol=settings.kafka_security_protocol or "plaintext",
        mechanism=settings.kafka_sasl_mechanism,
        username=settings.kafka_sasl_username,
        password=settings.kafka_sasl_password,
        token_url=settings.kafka_oauth_token_url,
        scope=settings.kafka_oauth_scope,
        ca=settings.kafka_ssl_ca_location,
        certificate=settings.kafka_ssl_certificate_location,
        key=settings.kafka_ssl_key_location,
        key_password=settings.kafka_ssl_key_password,
        tuning=_tuning(settings.kafka_client),
    )
    _check(settings, client)
    return client


def _check(settings: Settings, client: KafkaClient) -> None:
    for fields, is_used, what in ((_TLS, client.has_tls, "TLS"), (_SASL, client.has_sasl, "SASL")):
        unused = next((field for field in fields if getattr(settings, field) and not is_used), None)
        if unused is not None:
            raise InvalidInput(
                f"it is set, but kafka_security_protocol={client.protocol} has no {what}.",
                field=unused,
                remedy=f"Set kafka_security_protocol to {'sasl_ssl' if what == 'SASL' else 'ssl or sasl_ssl'}.",
            )
    if bool(client.certificate) != bool(client.key):
        raise InvalidInput(
            "a client's certificate and its key go together.",
            field="kafka_ssl_key_location" if client.certificate else "kafka_ssl_certificate_location",
            remedy="Name both files.",
        )
    if client.has_sasl:
        _check_sasl(client)
    if client.has_tls:
        client.ssl_context()


def _check_sasl(client: KafkaClient) -> None:
    needed = {
        "kafka_sasl_mechanism": client.mechanism,
        "kafka_sasl_username": client.username,
        "kafka_sasl_password": client.password,
    }
    if client.mechanism == "OAUTHBEARER":
        needed["kafka_oauth_token_url"] = client.token_url
    missing = next((field for field, value in needed.items() if not value), None)
    if missing is not None:
        raise InvalidInput(f"kafka_security_protocol={client.protocol} needs it.", field=missing, remedy=f"Set {missing}.")
    if client.mechanism != "OAUTHBEARER" and (client.token_url or client.scope):
        field = "kafka_oauth_token_url" if client.token_url else "kafka_oauth_scope"
        raise InvalidInput(f"{client.mechanism} has no use for it.", field=field, remedy="Leave it empty.")


def _tuning(text: str) -> dict[str, str]:
    given: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or name in OURS or name.startswith(SECURITY):
            remedy = "Use name=value;name=value, without what we rely on and what has a setting of its own (kafka_sasl_…)."
            raise InvalidInput(f"{name!r} cannot be set.", field="kafka_client", remedy=remedy)
        given[name] = value
    return given


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _unreadable(field: str, file: str, what: str, error: Exception) -> InvalidInput:
    reason = error.strerror if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) else str(error)
    return InvalidInput(
        f"{file or 'the system store'} cannot be read as {what}: {reason}.", field=field, remedy="Name PEM files."
    )
