"""Commands on whole files: backup, restore, check, export, import."""

from obs.backup.check import check
from obs.backup.copies import backup, restore
from obs.backup.transfer import export, import_group

COMMANDS = (backup, restore, check, export, import_group)
