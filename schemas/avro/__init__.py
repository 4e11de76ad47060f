"""The Change in Avro: a schema derived from the structs, and the codec.

Read avro_schema, avro_codec.
"""
