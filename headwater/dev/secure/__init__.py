"""Local servers that let nobody in without TLS.

Read certificates, kafka_secure, cassandra_secure.
"""
