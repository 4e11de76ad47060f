"""Real Kafka, Cassandra, PostgreSQL, schema registry, Nessie and Hive metastore on loopback, for development and tests.

Read fleet, server, state, kind, kinds; then launch and processes; then kafka, cassandra, postgres, registry, sources/ and
secure/; then jars, kit_jars, java, progress.
"""
