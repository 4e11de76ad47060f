"""What a server answers outside of its APIs: health, metrics, OpenAPI, front page, docs.

Read root_routes, openapi, metrics_access, front_page, docs_page.
"""
