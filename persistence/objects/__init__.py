"""Typed immutable objects over rows.

Read object_types, codec, cache, realm_objects, observed_reads.
"""
