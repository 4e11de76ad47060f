"""A cursor enters; an ordered, checked sequence of Changes leaves, whatever the transport."""
