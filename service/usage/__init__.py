"""A store enters; how many rows and bytes each realm takes leaves, measured in the background at a bounded cost."""
