"""What all HTTP APIs share: parameters, responses and checks of headers.

Read responses, parameters; then preconditions, correlation, origins, loopback, realm_header, started, hang_up,
bounded_answers.
"""
