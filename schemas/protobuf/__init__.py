"""The Change in protobuf: the file descriptor derived from the structs, and the codec.

Read protobuf_schema, then protobuf_codec.
"""
