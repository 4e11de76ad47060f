"""Commands that publish, read and audit the feed.

Read publish and publish_status; then subscribe, change_jobs, views and webhook over feed_sources; then
audit over audit_sources, and audit_states.
"""
