"""The server: HTTP requests become operations and feeds.

Read config, app, server; then gate/, which every request passes, and routes, its table; then http/, errors/, auth/,
operations/, which all APIs share; then the APIs feed/, iceberg/, manage/, nessie/, root/ and grpc/. storage/, idempotency/,
usage/, observability/, statistics/, planning/, bundles/ and directory/ serve several; reconciling/ runs connectors in the
background. Start-up: auth_factory, background, dev_realm, demo_contents, seeding.
"""
