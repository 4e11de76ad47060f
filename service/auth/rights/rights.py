"""The rights and what they are over, for those who ask for them at a door."""

from __future__ import annotations

from headwater.producer.access.rights import IMPLIED, REALM, Right, Securable, implied_by, right_of

__all__ = ["IMPLIED", "REALM", "Right", "Securable", "implied_by", "right_of"]
