"""Lists the gRPC services, with the message types of each method, and makes stubs for clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from google.protobuf import message_factory
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message

from headwater.schemas.rpc import (
    catalog_pb2,
    connector_pb2,
    directory_pb2,
    feed_pb2,
    namespace_pb2,
    planning_pb2,
    reference_pb2,
    snapshot_pb2,
    statistics_pb2,
    table_pb2,
    tenant_pb2,
    view_pb2,
)

_FILES = (
    catalog_pb2,
    connector_pb2,
    directory_pb2,
    feed_pb2,
    namespace_pb2,
    planning_pb2,
    reference_pb2,
    snapshot_pb2,
    statistics_pb2,
    table_pb2,
    tenant_pb2,
    view_pb2,
)
SERVICES: tuple[ServiceDescriptor, ...] = tuple(
    service for file in _FILES for service in file.DESCRIPTOR.services_by_name.values()
)


class RpcMethod(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    """Of the service and the method: `io.headwater.feed.v1.FeedService/Commit`."""
    request: type[Message]
    response: type[Message]
    is_stream: bool
    """Whether the server answers with a stream."""
    takes_stream: bool = False
    """Whether the client sends one; then the server answers with one message."""

    @property
    def path(self) -> str:
        return f"/{self.name}"


def all_methods() -> Iterator[RpcMethod]:
    for service in SERVICES:
        for method in service.methods:
            yield rpc_method(method)


def rpc_method(method: MethodDescriptor) -> RpcMethod:
    if method.containing_service is None or (method.client_streaming and method.server_streaming):
        raise TypeError(f"{method.full_name} has no service, or streams both ways")
    return RpcMethod(
        name=f"{method.containing_service.full_name}/{method.name}",
        request=message_factory.GetMessageClass(method.input_type),
        response=message_factory.GetMessageClass(method.output_type),
        is_stream=method.server_streaming,
        takes_stream=method.client_streaming,
    )


class Stub:
    """The methods of one service as attributes, over a channel of `grpc` or `grpc.aio`."""

    def __init__(self, channel: Any, service: str) -> None:
        """`service` is a full name, or the last part of one, as in `FeedService`."""
        found = [one for one in SERVICES if service in (one.full_name, one.name)]
        if not found:
            raise LookupError(f"there is no service {service!r}")
        self._calls: dict[str, Callable[..., Any]] = {
            method.name: _call(channel, rpc_method(method)) for method in found[0].methods
        }

    def __getattr__(self, name: str) -> Callable[..., Any]:
        try:
            return self._calls[name]
        except KeyError:
            raise AttributeError(name) from None


def _call(channel: Any, method: RpcMethod) -> Callable[..., Any]:
    of_one = channel.unary_stream if method.is_stream else channel.unary_unary
    kind = channel.stream_unary if method.takes_stream else of_one
    made: Callable[..., Any] = kind(
        method.path,
        request_serializer=method.request.SerializeToString,
        response_deserializer=method.response.FromString,
    )
    return made
