"""Commands on principals, roles, grants and policies.

Read access_target, then principal, role, grant, policy.
"""
