"""`headwater.connect`: the engine over HTTP.

Read remote, server_calls, remote_references, remote_snapshot, remote_subscription, remote_manage, client_credentials.
"""
