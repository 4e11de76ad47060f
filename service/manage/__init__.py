"""The management API under `/manage/v1`: realms, catalogs, references, merges, principals, roles, grants, policies.

Read route, routes, call, parameters; then one module for each resource: realms, catalogs, namespaces, tables/,
references, merges, principals, roles, policies, connectors, reports.
"""
