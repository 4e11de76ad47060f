"""What a caller may do.

Read rights, protocols, realm_rights, authorizer, denials, rate_limits, development.
"""
