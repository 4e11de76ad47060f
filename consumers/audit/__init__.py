"""Changes enter, from a store, a server, Kafka or a file; proof that they are whole leaves, or the place where they are not."""
