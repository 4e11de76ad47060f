"""Admits a call: who calls, its message, the route that it is bound to, its budget, and its right.

⚠ In this order. Nothing of the message is read before it is known who calls, and nothing is looked up before the right is
asked for, but for ids, which are not there for who may not list them.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Hashable
from typing import Any, cast

from google.protobuf.message import Message

from headwater.persistence.rows import SYSTEM_REALM
from headwater.schemas.errors import InvalidInput, NotServing
from headwater.schemas.rpc.services import RpcMethod
from headwater.service.auth.caller import Caller
from headwater.service.auth.tokens.token_endpoint import peer_of
from headwater.service.gate.bodies import SMALL_BODY_BYTES, BodyReader
from headwater.service.gate.budgets import Budgets
from headwater.service.gate.gate import open_realm
from headwater.service.gate.request import Request
from headwater.service.gate.rights import authorize, authorize_body
from headwater.service.gate.route import ELEMENTS_MAX, FORM_BYTES_MAX, MESSAGE, Needs
from headwater.service.grpc.call_context import CallContext, call_key
from headwater.service.grpc.grpc_errors import late_error
from headwater.service.grpc.rpc import Bound, Public, Rpc, RpcCall, check_message_elements, make_request, parsed
from headwater.service.grpc.rpc_audit import SeenCall
from headwater.service.grpc.rpc_caller import caller_of, refuse_principal
from headwater.service.grpc.runtime import Runtime
from headwater.service.http.responses import Receive


class Admitted:
    """A call that may run, with what it holds until it is answered."""

    __slots__ = ("_budgets", "_place", "_reader", "call", "request")

    def __init__(self, call: RpcCall, request: Request, reader: BodyReader, budgets: Budgets, place: Any) -> None:
        self.call = call
        self.request = request
        self._reader = reader
        self._budgets = budgets
        self._place = place

    def leave(self) -> None:
        self._budgets.leave(self._place)
        self._reader.close()


class Admission:
    """The entrance of one method."""

    def __init__(self, runtime: Runtime, method: RpcMethod, rpc: Rpc) -> None:
        self._runtime = runtime
        self._service = runtime.service
        self._method = method
        self._rpc = rpc

    async def admit(self, context: CallContext, seen: SeenCall, receive: Receive) -> Admitted:
        self._refuse_if_late(context)
        service = self._service
        caller = seen.caller = await caller_of(service, context, is_system=self._rpc.is_system)
        budgets, owner = self._runtime.budgets, caller.identity
        reader = BodyReader(budgets, MESSAGE, owner, service.config.grpc_message_bytes_max)
        try:
            raw = await self._arrived(reader, owner, context, receive)
            call, bound = await self._bound(context, caller, raw)
            request = seen.request = make_request(call, bound, self._key(context, call.message))
            needs, budget = bound.route.needs, bound.route.budget
            if needs is None or budget is None:
                raise LookupError(f"{bound.route.path} has no right or no budget")
            admitted = Admitted(call, request, reader, budgets, budgets.enter(budget, caller))
        except BaseException:
            reader.close()
            raise
        try:
            await self.authorized(request, needs, caller)
        except BaseException:
            admitted.leave()
            raise
        return admitted

    async def authorized(self, request: Request, needs: Needs, caller: Caller) -> None:
        await authorize(request, needs)
        if caller.realm == SYSTEM_REALM and not request.serves_system:
            raise InvalidInput("the system realm has tenants and logs only.", field="realm", remedy="Name another realm.")
        feed = self._service.feeds.known(caller.realm)
        if feed is None:
            await open_realm(self._service, request, caller)
        else:
            request.feed, request.kernel = feed, feed.kernel
        if request.refuses_unknown_parameters:
            _ = request.query
        if needs.body is not None or needs.check is not None:
            await authorize_body(request, needs)

    async def _arrived(self, reader: BodyReader, owner: Hashable, context: CallContext, receive: Receive) -> bytes:
        arrivals = self._runtime.arrivals
        waiting = arrivals.enter(owner)
        if waiting is not None:
            await waiting
        try:
            return await reader.read(context.scope, receive, None)
        finally:
            arrivals.leave(owner)

    async def _bound(self, context: CallContext, caller: Caller, raw: bytes) -> tuple[RpcCall, Bound]:
        """Off the event loop where the message is large."""

        def bind() -> tuple[RpcCall, Bound | Awaitable[Bound]]:
            call = RpcCall(runtime=self._runtime, context=context, caller=caller, message=self.parsed(raw))
            return call, self._rpc.bind(call)

        call, binding = bind() if len(raw) <= SMALL_BODY_BYTES else await asyncio.to_thread(bind)
        return call, await self.bound_to(call, binding)

    async def bound_to(self, call: RpcCall, binding: Bound | Awaitable[Bound] | None = None) -> Bound:
        binding = self._rpc.bind(call) if binding is None else binding
        bound: Bound = await binding if inspect.isawaitable(binding) else binding
        if bound.route not in self._rpc.routes:
            raise LookupError(f"{self._method.name} has no right for {bound.route.path}")
        return bound

    async def for_everybody(self, context: CallContext, receive: Receive, serve: Public) -> Message:
        """Nobody has proven who calls: what is asked for limits itself, by address."""
        self._refuse_if_late(context)
        if not self._service.config.dev:
            refuse_principal(context)
        budget = self._rpc.routes[0].budget
        if budget is None:
            raise LookupError(f"{self._method.name} has no budget")
        budgets, owner = self._runtime.budgets, peer_of(context.scope)
        reader = BodyReader(budgets, budget, owner, FORM_BYTES_MAX)
        place = budgets.enter(budget, None)
        try:
            raw = await self._arrived(reader, owner, context, receive)
            return await serve(self._service, context, self.parsed(raw))
        finally:
            budgets.leave(place)
            reader.close()

    # ── messages ────────────────────────────────────────────────────────────────────────────────────────────

    async def parsed_aside(self, raw: bytes) -> Message:
        return self.parsed(raw) if len(raw) <= SMALL_BODY_BYTES else await asyncio.to_thread(self.parsed, raw)

    def parsed(self, raw: bytes) -> Message:
        message: Message = parsed(self._method.request, raw, "message")
        if len(raw) > max(SMALL_BODY_BYTES, ELEMENTS_MAX):  # an element takes a byte at least
            check_message_elements(message)
        return message

    def _key(self, context: CallContext, message: Message) -> str | None:
        if not self._rpc.is_keyed and "idempotency" not in message.DESCRIPTOR.fields_by_name:
            return None
        return call_key(context, cast(Any, message).idempotency.key)

    def _refuse_if_late(self, context: CallContext) -> None:
        if context.is_late:
            raise late_error()
        if self._service.stopping.is_set:
            raise NotServing("the server is stopping.", remedy="Try again.")


def receive_one(messages: AsyncIterator[bytes]) -> Receive:
    """⚠ Methods are declared as if they took streams of messages, which looks the same from outside: of any other method gRPC
    reads the message before anybody could ask who sends it."""

    async def receive() -> dict[str, Any]:
        message = await anext(aiter(messages), None)
        if message is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": message, "more_body": False}

    return receive
