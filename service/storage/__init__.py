"""Where the files of catalogs lie.

Read locations, files, storage_options, storage_roots.
"""
