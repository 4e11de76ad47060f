"""Nessie's own Java client in a JVM of its own, called from Python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import py4j.java_gateway
import py4j.protocol
import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from headwater.dev.jars import class_path, fetch_jars
from headwater.dev.java import java_program
from headwater.settings import load_settings

QUICK = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx256m"]


class NessieJvm:
    """What the tests need of the client's classes."""

    def __init__(self, jvm: Any) -> None:
        self.jvm = jvm
        self.model = jvm.org.projectnessie.model

    def client(self, uri: str, *headers: tuple[str, str]) -> Any:
        builder = self.jvm.org.projectnessie.client.NessieClientBuilder.createClientBuilderFromSystemSettings()
        builder = builder.withUri(uri)
        for name, value in headers:
            builder = builder.withHttpHeader(name, value)
        return builder.build(self._class("org.projectnessie.client.api.NessieApiV2"))

    def key(self, *elements: str) -> Any:
        return self.model.ContentKey.of(list(elements))

    def namespace(self, *elements: str) -> Any:
        return self.model.Namespace.of(list(elements))

    def table(self, location: str, content_id: str | None = None, snapshot_id: int = 1) -> Any:
        builder = self.model.IcebergTable.builder().metadataLocation(location).snapshotId(snapshot_id)
        builder = builder.schemaId(2).specId(3).sortOrderId(4)
        return (builder if content_id is None else builder.id(content_id)).build()

    def put(self, key: Any, content: Any) -> Any:
        return self.model.Operation.Put.of(key, content)

    def delete(self, key: Any) -> Any:
        return self.model.Operation.Delete.of(key)

    def unchanged(self, key: Any) -> Any:
        return self.model.Operation.Unchanged.of(key)

    def commit(self, api: Any, branch: Any, message: str, *operations: Any, author: str | None = None) -> Any:
        """The branch at the new commit, with the ids of new contents."""
        meta = self.model.CommitMeta.builder().message(message)
        meta = meta if author is None else meta.author(author)
        request = api.commitMultipleOperations().branch(branch).commitMeta(meta.build())
        for operation in operations:
            request = request.operation(operation)
        return request.commitWithResponse()

    def _class(self, name: str) -> Any:
        return self.jvm.java.lang.Class.forName(name)


@contextmanager
def nessie_jvm() -> Iterator[NessieJvm]:
    jars = fetch_jars("nessie-client", Path(load_settings().jar_cache_dir))
    with jvm(class_path(jars)) as running:
        yield NessieJvm(running)


@contextmanager
def jvm(classpath: str) -> Iterator[Any]:
    port, token = launch_gateway(
        classpath=classpath, javaopts=QUICK, java_path=java_program(), die_on_exit=True, enable_auth=True
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True))
    with pytest.MonkeyPatch.context() as patch:
        # A Spark session of an earlier test has made all exceptions of this process its own, those of other JVMs too.
        patch.setattr(py4j.java_gateway, "get_return_value", py4j.protocol.get_return_value)
        try:
            yield gateway.jvm
        finally:
            gateway.shutdown()


class Refused:
    exception: Any = None

    @property
    def message(self) -> str:
        return str(self.exception.getMessage())

    @property
    def conflicts(self) -> list[tuple[str, tuple[str, ...]]]:
        """Kind and key of each, as the client's own exception tells them."""
        found = self.exception.getErrorDetails().conflicts()
        return [(str(one.conflictType()), () if one.key() is None else tuple(one.key().getElements())) for one in found]


@contextmanager
def refused(name: str) -> Iterator[Refused]:
    """The block must end with a Java exception of just that class of `org.projectnessie.error`."""
    told = Refused()
    with pytest.raises(Py4JJavaError) as caught:
        yield told
    told.exception = caught.value.java_exception
    assert told.exception.getClass().getSimpleName() == name, str(told.exception)
