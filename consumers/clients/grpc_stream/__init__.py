"""A server over gRPC: the requests of the HTTP clients become RPCs, and their responses what these clients expect.

So readers, cursors, retries and the objects of `headwater.connect` are the same code over both. The translation of requests is
in generators without I/O; the transports only carry messages.

Read channel, exchange, change_structs, statuses, feed_calls, commit_calls, subscription_calls, record_calls, reference_calls,
call_table, event_stream, grpc_transport.

⚠ `grpc` is imported when a `grpc://` address is used, not before: service workers are forked without it.
"""
