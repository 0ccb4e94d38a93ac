"""`python -m newkinds` is the `newkinds` command."""

from newkinds.cli import main

main()
