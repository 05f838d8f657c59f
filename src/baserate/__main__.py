"""``python -m baserate`` is the command ``baserate``."""

from baserate.cli import main

main(prog_name="baserate")
