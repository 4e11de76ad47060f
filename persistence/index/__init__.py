"""A log-structured merge index: a full tail of operations becomes immutable stripes in levels, which branches share.

Read keys, columns, objects, geometry, level, merging, flushing (writing); then view, difference, walking (reading).
"""

from headwater.persistence.index.difference import diff
from headwater.persistence.index.flushing import Flushed, flush
from headwater.persistence.index.geometry import GEOMETRY, Geometry
from headwater.persistence.index.keys import END, START, children_bounds, decode_key, encode_key, just_after, subtree_bounds
from headwater.persistence.index.objects import DIRECTORY, STRIPE, Directory, IndexObject, IndexRoot, IndexValue, Load, Stripe
from headwater.persistence.index.view import Index, Tail
from headwater.persistence.index.walking import reachable, walk

__all__ = [
    "DIRECTORY",
    "END",
    "GEOMETRY",
    "START",
    "STRIPE",
    "Directory",
    "Flushed",
    "Geometry",
    "Index",
    "IndexObject",
    "IndexRoot",
    "IndexValue",
    "Load",
    "Stripe",
    "Tail",
    "children_bounds",
    "decode_key",
    "diff",
    "encode_key",
    "flush",
    "just_after",
    "reachable",
    "subtree_bounds",
    "walk",
]
