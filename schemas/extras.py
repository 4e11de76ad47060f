"""Names the extra that installs each optional package, and reports a package that is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headwater.schemas.errors import MissingDependency

EXTRA_OF_PACKAGE = {
    "aiokafka": "kafka",
    "botocore": "service",
    "cassandra": "cassandra",
    "cel": "nessie",
    "confluent_kafka": "kafka",
    "cryptography": "service",
    "fastavro": "kafka",
    "faust": "faust",
    "google": "protobuf",
    "granian": "service",
    "grpc": "grpc",
    "grpc_health": "grpc",
    "grpc_reflection": "grpc",
    "grpc_status": "grpc",
    "httpx": "client",
    "jwt": "service",
    "numpy": "spark",
    "obstore": "files",
    "opentelemetry": "otel",
    "prometheus_client": "metrics",
    "psycopg": "postgres",
    "pyarrow": "spark",
    "pydantic": "service",
    "pyiceberg": "service",
    "pyspark": "spark",
    "sqlglot": "service",
    "standardwebhooks": "client",
    "starlette": "service",
}
"""Import name → the smallest extra of pyproject.toml that installs it."""


@contextmanager
def needs_extra(purpose: str, extra: str | None = None) -> Iterator[None]:
    """Around imports: a missing package becomes one error that names the extra, by default the one that installs the package.

    A failed import of our own modules is a defect and passes through, as does that of a package that no extra installs.
    """
    try:
        yield
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        wanted = extra or EXTRA_OF_PACKAGE.get(package)
        if package == "headwater" or wanted is None:
            raise
        raise MissingDependency(
            f"{purpose} needs {package or 'a package'}: {error}.",
            remedy=f"Run `pip install 'headwater[{wanted}]'`.",
            extra=wanted,
        ) from error
