"""A branch's log as the events of the Iceberg specification, free of HTTP.

Read event_pages, event_shapes.
"""
