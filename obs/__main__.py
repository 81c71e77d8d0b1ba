"""``python -m obs`` runs the command ``obs``."""

from obs.cli import main

main(prog_name="obs")
