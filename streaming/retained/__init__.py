"""The retained set as files, filters and sources. Does not need Spark.

Read folder_owner, step_files, retained_store, retained_seed; then set_increment and log_increment, which add a few Changes in
this process, small_steps, which merges what they write, and set_compaction; then present_history, retained_batch,
retained_sources, catch_up_source, bloom, retained_filter.
"""
