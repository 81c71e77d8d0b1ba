"""Commands on whole files: backup, restore, check, export, import."""
