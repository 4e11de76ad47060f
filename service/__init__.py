"""The server: HTTP requests become operations and feeds.

Read config, app, server; then gate/, which every request passes, and routes, its table; then http/, errors/, auth/,
operations/, which all APIs share; then the APIs feed/, iceberg/, manage/, nessie/ and root/. storage/, idempotency/, usage/ and
observability/ serve several of them. Start-up: auth_factory, background, dev_realm, seeding, task_startup.
"""
