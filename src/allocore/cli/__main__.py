"""Runs the command line as `python -m allocore.cli`, in case `allocore` is not on the path."""

from allocore.cli import main

main()
