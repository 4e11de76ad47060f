"""Real Kafka, Cassandra, PostgreSQL and schema registry on loopback, for development and tests.

Read fleet, server, state, kind, kinds; then launch and processes; then kafka, cassandra, postgres, registry and secure/; then
jars, kit_jars, java, progress.
"""
