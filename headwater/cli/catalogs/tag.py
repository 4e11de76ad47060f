"""`headwater tag`: creates, lists, shows, assigns and deletes tags."""

from headwater.cli.catalogs.reference_commands import reference_group
from headwater.producer.pointer_names import ReferenceType

command = reference_group(ReferenceType.TAG, "Create, list, show, assign and delete tags.")
