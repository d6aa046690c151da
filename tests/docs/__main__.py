"""`python -m tests.docs`: writes the pages that are made from tables of the code."""

from __future__ import annotations

from kg_loaders.disk.writing import write_text
from tests.docs.methods import PAGE, README, page, readme


def main() -> None:
    """Write docs/methods.md, and the table of methods in the README."""
    write_text(PAGE, page(), force=True)
    write_text(README, readme(README.read_text(encoding="utf-8")), force=True)


if __name__ == "__main__":
    main()
