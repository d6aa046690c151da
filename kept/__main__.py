"""`python -m kept`."""

from kept.apps.cli import main

main()
