"""Asks the brokers once, before work begins, and says in seconds why they refuse this client.

The clients themselves try forever: to them a wrong password looks like a broker that will be back soon.
"""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from headwater.schemas.errors import KafkaRefused, KafkaUnavailable

ANSWER_SECONDS = 10.0
ASK_SECONDS = 0.5
DOWN_SECONDS = 2.0
"""A connection that was lost once, on a busy machine, is not yet a broker that is away."""
REFUSED = frozenset(
    {
        KafkaError._SSL,
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.ILLEGAL_SASL_STATE,
    }
)


def check_brokers(bootstrap: str, client: dict[str, str], *, seconds: float = ANSWER_SECONDS) -> None:
    """`KafkaRefused` where TLS or SASL fails, `KafkaUnavailable` where no broker answers in that time."""
    seen: list[KafkaError] = []
    admin = _admin(bootstrap, client, seen)
    began = time.monotonic()
    while True:
        try:
            admin.list_topics(timeout=ASK_SECONDS)
            return
        except KafkaException as error:
            admin.poll(0)
            _raise_refusal(bootstrap, [*seen, error.args[0]])
            is_down = any(one.code() == KafkaError._ALL_BROKERS_DOWN for one in seen)
            if time.monotonic() - began > (min(DOWN_SECONDS, seconds) if is_down else seconds):
                said = f": {' '.join(seen[0].str().split())}" if seen else ""
                raise KafkaUnavailable(
                    f"no broker answers at {bootstrap!r}{said}.",
                    field="kafka_bootstrap",
                    remedy="Start Kafka, or check host:port and kafka_security_protocol.",
                ) from error


def _admin(bootstrap: str, client: dict[str, str], seen: list[KafkaError]) -> AdminClient:
    given: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0, "error_cb": seen.append, **client}
    try:
        return AdminClient(given)
    except KafkaException as error:
        raise KafkaRefused(f"the Kafka client refuses its settings: {error.args[0].str()}.", field="kafka_client") from error


def _raise_refusal(bootstrap: str, errors: list[KafkaError]) -> None:
    for error in errors:
        if error.code() in REFUSED:
            is_tls = error.code() == KafkaError._SSL
            field = "kafka_ssl_ca_location" if is_tls else "kafka_sasl_password"
            remedy = (
                "Check kafka_security_protocol, the CA and the client's certificate."
                if is_tls
                else "Check mechanism, user name and password."
            )
            raise KafkaRefused(f"{bootstrap}: {' '.join(error.str().split())}.", field=field, remedy=remedy)
