"""`python -m kept`."""

from kept.cli import main

main()
