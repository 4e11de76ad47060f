"""How fields of messages are read and written: names and ids, pages, masks, frames of Changes.

Read message_fields, paging, masks, change_messages, encoded_changes, frames, committed, key_contents, statistics_messages,
plan_messages, bundle_messages, answer_sizes.
"""
