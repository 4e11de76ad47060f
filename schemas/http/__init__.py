"""JSON bodies of the HTTP APIs as types: servers encode them, clients decode them, OpenAPI documents are generated from them.

Read feed_json, merge_json, manage_json, connector_json, statistics_json.
"""
