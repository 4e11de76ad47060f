"""One lane for a pointer across the workers of a server: a worker hands its commits over to the one that holds the lane.

Without it two workers race for the same row and plan every second batch again. With it each pointer has one worker that
commits, chosen by a stable hash over the workers that live, and the others send it their requests over a local socket. ⚠ That
is an optimisation and never a rule: the CAS of the pointer's row decides what is committed, as between any two processes. A
worker that reaches no peer, or whose request cannot be sent, commits by itself.

The protocol:
- Each worker listens on a Unix socket in a folder that only the server's user may enter, and takes connections of processes of
  that user alone. It connects to every other socket there, and removes sockets without a listener.
- *Offer*: a request as plain data (declared_requests), with the position of an entry that is in the pointer's log. The worker
  that takes it puts it into its own lane, and never hands it on. The rights were checked by the worker that the client asked.
- *Outcome* or *Refusal*: what the lane said, typed as it was there; unknown stays unknown. *Moved*: the head after a batch,
  before the outcomes that rest on it, so that a client finds its own commit through the worker that it asked.
- *Declined*: the offer was not planned and will not be, for example because its position is too old to look back to. The
  sender commits by itself, and so learns a newer position.
- ⚠ When the connection is lost, or its worker is silent for too long, every request without an outcome goes to the sender's own
  lane together with its position. The lane looks for the request id after that position before it plans, and so does the lane
  of a worker that was only slow (persistence/commit/landed_elsewhere): the request lands once, in whichever worker. Where
  history was restored or has expired meanwhile, the outcome is `CommitOutcomeUnknown`.
- A sender that knows no entry of a pointer commits by itself; that commit is then the position of the next.
- Stopping: a worker closes its socket, tells its peers, waits for the outcomes that it was promised, and finishes its lanes.

Read declared_requests, messages, connection, offers, handover, fault_points.
"""
