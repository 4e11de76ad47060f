"""Settings become running parts, for the command and for the server.

Read stores, servers, kafka_client, kafka_readers, publishing, table_topics, spark, sweeps, maintenance, maintenance_process,
external_resources; then stream, published_topics, status_page, publish_status.
"""
