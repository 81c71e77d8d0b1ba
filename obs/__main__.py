"""``python -m obs``: the same as the command ``obs``."""

from obs.cli import main

main(prog_name="obs")
