"""The Nessie REST API v2. What it does, free of HTTP, is in operations/.

Read routes, call; then read_handlers, reference_handlers, commit_handler, merge_handlers;
then the JSON of it: answers, content_json, meta_json, key_paths, reference_paths, error_shape.
"""
