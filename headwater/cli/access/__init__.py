"""Commands on principals, roles, grants, policies and tokens.

Read record_commands, then principal, role, grant, policy, token.
"""
