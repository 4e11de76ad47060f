"""Lists, reads and deletes files, locally and on object storage.

Read object_store (the interface), local_files, remote_store, store_options, metered_store, storages, listing; s3_versions;
spilled_files.
"""
