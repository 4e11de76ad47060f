"""`headwater.connect`: the engine over HTTP.

Read remote, server_calls, remote_references, remote_logs, remote_snapshot, remote_merges, remote_subscription, remote_manage,
remote_connectors.
"""
