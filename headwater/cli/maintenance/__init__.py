"""`headwater maintain` and its sub-commands."""
