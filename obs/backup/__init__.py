"""Commands on whole files: backup, restore, check."""

from obs.backup.check import check
from obs.backup.restore import restore
from obs.backup.write import backup

COMMANDS = (backup, restore, check)
