"""Who calls.

Read tokens, signing_keys, credentials, token_endpoint, token_provider, oidc, jwks, peer_principals.
"""
