"""Commands of an operator: server, stores, realms, settings, local servers, the demo.

Read serve, serve_access, serve_background; then store, realm, settings; then dev, up and demo.
"""
