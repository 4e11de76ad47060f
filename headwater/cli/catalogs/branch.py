"""`headwater branch`: creates, lists, shows, assigns and deletes branches."""

from headwater.cli.catalogs.reference_commands import reference_group
from headwater.producer.pointer_names import ReferenceType

command = reference_group(ReferenceType.BRANCH, "Create, list, show, assign and delete branches.")
