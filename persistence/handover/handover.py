"""Hands commits over between the workers of one server, by one thread that watches their sockets."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import selectors
import socket
import struct
import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.persistence.commit.commit_request import CommitRequest
from headwater.persistence.commit.draft import Draft
from headwater.persistence.commit.landed_elsewhere import HandedOver, LogPosition
from headwater.persistence.commit.replies import Reply
from headwater.persistence.handover.connection import Connection
from headwater.persistence.handover.declared_requests import DECLARED_REQUESTS
from headwater.persistence.handover.fault_points import At, FaultPoint, no_fault
from headwater.persistence.handover.messages import (
    NO_REPORT,
    Closing,
    Declined,
    Message,
    Moved,
    Offer,
    Outcome,
    Ping,
    Pong,
    Refusal,
    refusal_of,
)
from headwater.persistence.handover.offers import Offered, Peer, ReturnedReply, TakenReply
from headwater.persistence.log.log_entry import LogRecord
from headwater.schemas.errors import CommitOutcomeUnknown, HeadwaterError, StoreUnavailable

if TYPE_CHECKING:
    from headwater.persistence.store import Store

SUFFIX = ".lane"
LOOK_SECONDS = 0.25
"""How often to look for new and for silent workers."""
PING_SECONDS = 1.0
SILENT_SECONDS_MAX = 5.0
"""A worker that has not even answered a ping for this long is given up."""
DRAIN_SECONDS_MAX = 30.0
POSITIONS_MAX = 10_000
POSITION_SECONDS_MAX = 5.0
PEERS_MAX = 256

_log = logging.getLogger(__name__)


class Handover:
    """One worker's side. `offer` may be called from any thread or event loop and never blocks."""

    def __init__(self, store: Store, folder: Path, *, name: str = "", at: At = no_fault) -> None:
        self._store = store
        self._folder = folder
        self.name = name or str(os.getpid())
        self._at = at
        self._peers: dict[str, Peer] = {}
        """By name. Changed by the watching thread alone."""
        self._taken_from: list[Connection] = []
        self._holders: dict[tuple[str, str], Peer | None] = {}
        self._positions: OrderedDict[tuple[str, str], tuple[LogPosition, float]] = OrderedDict()
        """The newest known entry of each pointer, and when it was learned."""
        self._positions_lock = threading.Lock()
        self._tokens, self._numbers = os.urandom(8), itertools.count(1)
        self._selector = selectors.DefaultSelector()
        self._is_closing = self._is_stopped = False
        self._look_at = 0.0
        self._wake_read, self._wake_write = socket.socketpair()
        self._listener = _listen(folder, self.name)
        self._thread = threading.Thread(target=self._watch, name="handover", daemon=True)

    def start(self) -> None:
        for watched, handler in ((self._listener, self._accept), (self._wake_read, self._woken)):
            watched.setblocking(False)
            self._selector.register(watched, selectors.EVENT_READ, handler)
        self._store.restores.on_restored(self._forget)
        self._thread.start()

    # ── one request ────────────────────────────────────────────────────────────────────────────────

    def offer(self, realm: str, pointer: str, request: CommitRequest, reply: Reply[CommitOutcome]) -> bool:
        """Whether the request was sent to the worker that holds the lane. False: commit it here."""
        if self._is_closing or not self._peers:
            return False
        holder = self._holder(realm, pointer)
        after = None if holder is None else self._recent_position(realm, pointer)
        declared = None if after is None else DECLARED_REQUESTS.of(request)
        if holder is None or after is None or declared is None:
            return False
        handed_over = HandedOver(after, self._tokens + next(self._numbers).to_bytes(6))
        if not holder.offer(Offered(realm, pointer, request, reply, handed_over, declared)):
            return False
        holder.connection.flush_soon()
        self._at(FaultPoint.OFFERED)
        return True

    def _recent_position(self, realm: str, pointer: str) -> LogPosition | None:
        """⚠ None if the position is old: it may have expired, or have too many entries after it to search. The request is then
        committed here, and that commit becomes the position of the next."""
        position, since = self._positions.get((realm, pointer), (None, 0.0))
        return position if time.monotonic() - since < POSITION_SECONDS_MAX else None

    def _holder(self, realm: str, pointer: str) -> Peer | None:
        """The worker that commits to the pointer; None for this one. Workers may disagree briefly: it costs a lost race."""
        key = (realm, pointer)
        try:
            return self._holders[key]
        except KeyError:
            live = {peer.name: peer for peer in list(self._peers.values()) if peer.is_live}
            if len(self._holders) >= POSITIONS_MAX:
                self._holders.clear()
            holder = self._holders[key] = live.get(chosen_holder((self.name, *live), realm, pointer))
            return holder

    def _take(self, connection: Connection, offer: Offer) -> None:
        self._at(FaultPoint.TAKEN)
        try:
            kernel = self._store.kernel(offer.realm)
            request = DECLARED_REQUESTS.build(offer.name, offer.body, kernel)
            reply = TakenReply(connection, offer.number, request)
            kernel.committer.submit_here(offer.pointer, request, reply, offer.handed_over)
        except StoreUnavailable:  # closed: the sender commits by itself
            connection.post(Declined(offer.number))
        except HeadwaterError as refused:
            connection.post(refusal_of(offer.number, refused, NO_REPORT))
        except Exception:
            _log.exception("a request for %s could not be taken over", offer.pointer)
            connection.post(Declined(offer.number))

    def moved(self, realm: str, pointer: str, draft: Draft) -> None:
        """Called when a batch of this worker has landed, before any caller is answered."""
        row, entry = draft.head.row, draft.head.entry
        if row is None or entry is None:
            return
        if self._taken_from:
            self._at(FaultPoint.LANDED)
        self._know(realm, pointer, LogPosition(row.seq, row.head))
        for connection in self._taken_from:
            connection.post(Moved(realm, pointer, row, LogRecord(row.head, entry)))

    def answered(self) -> None:
        """Called when all requests of a batch have their outcomes."""
        for connection in self._taken_from:
            connection.flush()

    def _give(self, peer: Peer, message: Message) -> None:
        match message:
            case Outcome() | Refusal():
                self._at(FaultPoint.ANSWERED)
                if (offered := peer.take(message.number)) is not None:
                    offered.give(message)
            case Declined():
                if (offered := peer.take(message.number)) is not None:
                    self._commit_here(offered, may_have_landed=False)
            case Moved():
                self._know(message.realm, message.pointer, LogPosition(message.row.seq, message.row.head))
                self._store.kernel(message.realm).moved_by_peer(message.pointer, message.row, message.newest)
            case Pong():
                if not peer.is_live:
                    peer.is_live = True
                    self._holders.clear()
            case Closing():
                peer.is_live = False
                self._holders.clear()
            case _:
                raise ValueError(f"{type(message).__name__} is not expected from this side of the connection")

    def _commit_here(self, offered: Offered, *, may_have_landed: bool) -> None:
        reply = ReturnedReply(offered.reply)
        try:
            committer = self._store.kernel(offered.realm).committer
            committer.submit_here(offered.pointer, offered.request, reply, offered.handed_over if may_have_landed else None)
        except HeadwaterError as refused:
            if not may_have_landed:
                offered.reply.give(refused)
                return
            request_id = offered.request.request_id
            offered.reply.give(
                CommitOutcomeUnknown(
                    f"the worker that had the request {request_id} is gone, and it was not looked for: {refused.message}",
                    remedy="Look for the request id in the log before committing again.",
                    request_id=request_id,
                )
            )

    def _know(self, realm: str, pointer: str, position: LogPosition) -> None:
        key = (realm, pointer)
        with self._positions_lock:
            known = self._positions.get(key)
            if known is None or known[0].seq < position.seq:
                self._positions[key] = (position, time.monotonic())
                self._positions.move_to_end(key)
                if len(self._positions) > POSITIONS_MAX:
                    self._positions.popitem(last=False)

    def _forget(self) -> None:
        """The store was restored: the entries that are known may be gone."""
        with self._positions_lock:
            self._positions.clear()

    # ── the watching thread ─────────────────────────────────────────────────────────────────────────────────

    def _watch(self) -> None:
        while not self._is_stopped:
            try:
                if time.monotonic() >= self._look_at:
                    self._look_at = time.monotonic() + LOOK_SECONDS
                    self._look_around()
                self._watch_the_unsent()
                for key, _ in self._selector.select(LOOK_SECONDS):
                    handler: Callable[[], None] = key.data
                    handler()
            except Exception:  # the thread must survive: it is what notices silent peers
                _log.exception("handing over commits failed")

    def _look_around(self) -> None:
        for peer in list(self._peers.values()):
            if peer.connection.is_lost or (peer.silent_seconds > SILENT_SECONDS_MAX and (peer.pending or not peer.is_live)):
                self._lose(peer)
            elif peer.silent_seconds > PING_SECONDS and (peer.pending or not peer.is_live):
                self._send(peer.connection, Ping())
        if not self._is_closing:
            for path in self._folder.glob(f"*{SUFFIX}"):
                if path.stem != self.name and path.stem not in self._peers and len(self._peers) < PEERS_MAX:
                    self._connect(path)

    def _connect(self, path: Path) -> None:
        connecting = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connecting.setblocking(False)
            connecting.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):  # its worker is dead
            connecting.close()
            path.unlink(missing_ok=True)
            return
        except OSError:  # busy: try again later
            connecting.close()
            return
        peer = Peer(path.stem, Connection(connecting, self._wake))
        self._peers[peer.name] = peer
        self._selector.register(connecting, selectors.EVENT_READ, lambda: self._read_peer(peer))
        self._send(peer.connection, Ping())

    def _accept(self) -> None:
        try:
            accepted, _ = self._listener.accept()
        except OSError:
            return
        if len(self._taken_from) >= PEERS_MAX or not _is_own_user(accepted):
            accepted.close()
            return
        connection = Connection(accepted, self._wake)
        self._taken_from = [*self._taken_from, connection]
        self._selector.register(accepted, selectors.EVENT_READ, lambda: self._read_sender(connection))

    def _read_sender(self, connection: Connection) -> None:
        try:
            for message in connection.receive():
                match message:
                    case Offer():
                        self._take(connection, message)
                    case Ping():
                        connection.post(Pong())
                    case _:
                        raise ValueError(f"{type(message).__name__} is not expected from this side of the connection")
            connection.flush()
        except (OSError, ValueError) as lost:
            _say_why(lost)
            self._selector.unregister(connection.socket)
            self._taken_from = [other for other in self._taken_from if other is not connection]
            connection.close()

    def _read_peer(self, peer: Peer) -> None:
        try:
            messages = peer.connection.receive()
            # The head first, so that a caller that is answered can read its own commit.
            for message in sorted(messages, key=lambda message: not isinstance(message, Moved)):
                self._give(peer, message)
            peer.connection.flush()
        except (OSError, ValueError) as lost:
            _say_why(lost)
            self._lose(peer)

    def _lose(self, peer: Peer) -> None:
        """⚠ The requests that it was given may have landed or may still land."""
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(peer.connection.socket)
        del self._peers[peer.name]
        lost = peer.lose()
        self._holders.clear()
        if lost:
            _log.warning("worker %s is gone; %d commits that it had are decided here", peer.name, len(lost))
        for offered in lost:
            self._commit_here(offered, may_have_landed=True)

    def _send(self, connection: Connection, message: Message) -> None:
        connection.post(message)
        connection.flush()

    def _wake(self) -> None:
        with contextlib.suppress(OSError):  # full: it wakes anyway
            self._wake_write.send(b"\0")

    def _woken(self) -> None:
        with contextlib.suppress(OSError):
            self._wake_read.recv(4_096)

    def _watch_the_unsent(self) -> None:
        """Wait for writability of the sockets that have unsent bytes."""
        for connection in (*self._taken_from, *(peer.connection for peer in self._peers.values())):
            if connection.is_lost:
                continue
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.unsent_bytes else 0)
            key = self._selector.get_key(connection.socket)
            if key.events != wanted:
                self._selector.modify(connection.socket, wanted, key.data)

    # ── stopping ────────────────────────────────────────────────────────────────────────────────────────────

    def drain(self) -> None:
        """Stop taking and sending requests, then wait for the outcomes still due."""
        self._is_closing = True
        (self._folder / f"{self.name}{SUFFIX}").unlink(missing_ok=True)
        for connection in self._taken_from:
            self._send(connection, Closing())
        deadline = time.monotonic() + DRAIN_SECONDS_MAX
        while any(peer.pending for peer in list(self._peers.values())) and time.monotonic() < deadline:
            time.sleep(0.005)

    def close(self) -> None:
        """After the lanes have finished."""
        self._is_stopped = True
        self._wake()
        self._thread.join()
        for peer in list(self._peers.values()):
            self._lose(peer)
        for connection in self._taken_from:
            connection.flush()
            connection.close()
        self._selector.close()
        for one in (self._listener, self._wake_read, self._wake_write):
            one.close()


def chosen_holder(workers: Sequence[str], realm: str, pointer: str) -> str:
    """Rendezvous hashing: the same for all workers that see the same peers; most pointers stay when a peer comes or goes."""
    return max(workers, key=lambda name: (zlib.crc32(f"{name}\0{realm}\0{pointer}".encode()), name))


def _listen(folder: Path, name: str) -> socket.socket:
    """⚠ The socket gets its name only once it listens: peers take one that refuses connections for a dead worker's."""
    folder.chmod(0o700)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    path = folder / f"{name}{SUFFIX}"
    starting = folder / f"{name}.new"
    for stale in (path, starting):
        stale.unlink(missing_ok=True)
    try:
        listener.bind(str(starting))
        starting.chmod(0o600)
        listener.listen(PEERS_MAX)
        starting.rename(path)
    except OSError:
        listener.close()
        raise
    return listener


def _say_why(lost: Exception) -> None:
    if not isinstance(lost, ConnectionError):
        _log.error("a connection between workers is closed: %s", lost)


def _is_own_user(connected: socket.socket) -> bool:
    """A second check beside the folder's permissions."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", credentials)
    return bool(user == os.getuid())
