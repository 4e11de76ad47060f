"""The log enters; Kafka records leave: each entry once, in order per pointer, whatever dies in between."""
