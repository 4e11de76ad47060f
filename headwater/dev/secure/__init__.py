"""Local servers that admit nobody without TLS.

Read certificates, kafka_secure, cassandra_secure.
"""
