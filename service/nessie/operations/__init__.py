"""What the Nessie-compatible API does, without HTTP: the same calls serve any other door."""
