"""Settings become running parts, for the command and for the server.

Read stores, publishing, table_topics, spark, maintenance, maintenance_process, external_resources.
"""
