"""What the publisher does with Kafka: clients, topics, records, transactions and recorded progress.

Read kafka_clients, broker_check, realm_topics, topics, fast_avro, outgoing_records, sender, progress, schema_registry.
"""
