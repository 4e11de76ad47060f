"""The Change in Avro: the schema derived from the structs, and the codec. Read avro_schema, then avro_codec."""
