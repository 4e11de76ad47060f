"""The rights and what they are over, for the APIs."""

from __future__ import annotations

from headwater.producer.access.rights import IMPLIED, REALM, Right, Securable, implied_by, right_of

__all__ = ["IMPLIED", "REALM", "Right", "Securable", "implied_by", "right_of"]
