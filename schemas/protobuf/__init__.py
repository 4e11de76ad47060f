"""The Change in protobuf: a file descriptor derived from the structs, and the codec.

Read protobuf_schema, protobuf_codec.
"""
