"""What one request of an HTTP client becomes: RPCs to send, and the response built from their messages. Does no I/O."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote

import httpx
import msgspec
from google.protobuf.message import Message

from headwater.schemas.errors import InvalidInput
from headwater.schemas.rpc import common_pb2
from headwater.schemas.rpc.services import SERVICES, RpcMethod, rpc_method

METHODS = {f"{service.name}/{method.name}": method for service in SERVICES for method in service.methods}


class Asked(NamedTuple):
    """One RPC."""

    method: RpcMethod
    message: Message
    until: Callable[[Any], bool] | None = None
    """For a stream: reading stops after a message for which this is true."""


class Answered(NamedTuple):
    status: int
    body: bytes
    headers: dict[str, str] = {}


Exchange = Generator[Asked, list[Any], Answered]
"""Yields each RPC, is sent its messages, and returns the response."""


class HttpQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed request."""

    method: str
    realm: str
    parts: tuple[str, ...]
    """The parts of the path after the realm."""
    query: Mapping[str, Sequence[str]]
    headers: Mapping[str, str]
    body: bytes

    def one(self, name: str, otherwise: str = "") -> str:
        return self.query.get(name, (otherwise,))[0]

    def many(self, name: str) -> Sequence[str]:
        return self.query.get(name, ())

    def read(self, kind: type[Any]) -> Any:
        """What the server would refuse in JSON is refused here, because messages cannot express it."""
        try:
            return msgspec.json.decode(self.body, type=kind)
        except msgspec.ValidationError as error:
            raise InvalidInput(f"{error}.", field="body", remedy="Check the arguments of the call.") from None

    @property
    def key(self) -> common_pb2.Idempotency:
        return common_pb2.Idempotency(key=self.headers.get("idempotency-key", ""))

    @property
    def precondition(self) -> common_pb2.Precondition | None:
        text = self.headers.get("if-match")
        return None if text is None else common_pb2.Precondition(expected_version=text.strip('"'))

    @property
    def page(self) -> common_pb2.PageRequest:
        return common_pb2.PageRequest(size=int(self.one("limit", "0")), token=self.one("token"))


def question_of(request: httpx.Request, body: bytes) -> HttpQuestion:
    raw_path = request.url.raw_path.partition(b"?")[0].decode("ascii")
    _, api, _, *parts = [unquote(part) for part in raw_path.split("/")]
    query: dict[str, list[str]] = {}
    for name, value in parse_qsl(request.url.query.decode("ascii"), keep_blank_values=True):
        query.setdefault(name, []).append(value)
    is_of_system = api == "manage" and parts[:1] == ["realms"]
    realm, rest = ("", parts) if is_of_system else (parts[0], parts[1:])
    return HttpQuestion(method=request.method, realm=realm, parts=(api, *rest), query=query, headers=request.headers, body=body)


def asked(name: str, /, **fields: Any) -> Asked:
    """`FeedService/Commit` with its request's fields; None is left unset."""
    method = rpc_method(METHODS[name])
    return Asked(method, method.request(**{field: value for field, value in fields.items() if value is not None}))


def unary(name: str, /, **fields: Any) -> Generator[Asked, list[Any], Any]:
    """The single response of the RPC."""
    (answer,) = yield asked(name, **fields)
    return answer


def answered(value: object, status: int = 200, **headers: str) -> Answered:
    return Answered(status, msgspec.json.encode(value), headers)


def not_over_grpc(question: HttpQuestion) -> InvalidInput:
    return InvalidInput(
        f"{question.method} {'/'.join(question.parts)} is not served over gRPC.",
        field="url",
        remedy="Connect to the server's http:// address.",
    )
