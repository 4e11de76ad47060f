"""Catalog operations enter; commits leave, and the log leaves once more as Kafka records."""
