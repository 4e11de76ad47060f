"""Settings become running parts, for the command and for the server.

Read stores, publishing, spark, maintenance, maintenance_process.
"""
