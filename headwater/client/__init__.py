"""`headwater.connect`: the engine over HTTP.

Read remote, connection, server_calls, remote_references, remote_snapshot, remote_merges, remote_subscription, remote_manage,
client_credentials.
"""
