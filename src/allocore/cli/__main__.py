"""python -m allocore.cli, for where the command itself is not on the path."""

from allocore.cli import main

main()
