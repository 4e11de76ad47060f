"""Who may do what: principals, roles, grants and policies, kept as records of a realm.

Read rights, principals, roles, grants, effective; then policies, retention_policy, obligation_policies, obligations, writing,
named_records, role_removal, administrators.
"""
