"""Commands on principals, roles, grants and policies."""
