"""What the publisher does with Kafka.

Read kafka_clients, topics, fast_avro, outgoing_records, sender, progress, schema_registry.
"""
