"""Commands on whole files: backup, restore, check, export, import."""

from obs.backup.check import check
from obs.backup.restore import restore
from obs.backup.transfer import export, import_group
from obs.backup.write import backup

COMMANDS = (backup, restore, check, export, import_group)
