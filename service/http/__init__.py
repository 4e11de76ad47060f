"""What all HTTP APIs share: request bodies, parameters, responses and checks of headers.

Read responses, bodies, parameters; then preconditions, correlation, origins, loopback, realm_header, started, hang_up.
"""
