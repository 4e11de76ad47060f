"""`headwater tag`: names and commits enter; tags leave."""

from headwater.cli.catalogs.reference_commands import reference_group
from headwater.producer.pointer_names import ReferenceType

command = reference_group(ReferenceType.TAG, "Create, list, show, assign and delete tags.")
