"""Commands of an operator: server, stores, realms, settings, local servers, the demo.

Read serve, serve_access, serve_background; then store, realm, realm_transfer, settings; then dev, up and demo.
"""
