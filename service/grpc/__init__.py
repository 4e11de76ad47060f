"""The gRPC port: each method calls the operation of its HTTP sibling, with its rights, keys and errors.

Read call_context, grpc_errors, rpc, rpc_caller, messages/, contents/, services/, rpc_table, read_retries, admission,
pipeline, gathering, subscribing, runtime, open_services, grpc_server, grpc_metrics, rpc_audit.

⚠ `grpc` is imported in workers only, after the fork: service/app.py imports this package when a worker starts.
"""
