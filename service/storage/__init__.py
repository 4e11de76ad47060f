"""Where the files of catalogs lie.

Read locations, files, weighed_cache, delegation_options, storage_options, storage_roots; then s3_identity, vended_credentials,
remote_signing.
"""
