"""The one way into the server: every request of every API passes the same steps, declared on its route.

Read route, route_table, request, then gate: match, wait for a turn among many starts, authenticate, authorize, read and
decode the body within its budget, run once under its key, answer in the API's error shape. The gate enforces rights and
budgets; bodies reads and answers sends within them. problem_shape is the error shape of our own APIs, token_route what several
APIs have in common.
"""
