"""JSON bodies of the HTTP APIs as types: servers encode them, clients decode them, the OpenAPI documents show them."""
