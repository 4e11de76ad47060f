"""Names of servers enter; real Kafka, Cassandra, PostgreSQL and schema registry on loopback leave, with their addresses."""
