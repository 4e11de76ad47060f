"""Branches and tags.

Read reference_specs, reference_resolution, reference_moves, references.
"""
