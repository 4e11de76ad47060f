"""The management API under `/manage/v1`: realms, catalogs, references, principals, roles, grants, policies.

Read manage_endpoint, route, routes, call, parameters; then one module for each resource: realms, catalogs, namespaces,
references, principals, roles, policies, usage, audit.
"""
