"""`python -m tests.docs`: writes what is made from tables of the code."""

from __future__ import annotations

from kg_loaders.disk.writing import write_text
from tests.docs import hosts
from tests.docs.methods import PAGE, page
from tests.docs.stubs import STUBS, stubs


def main() -> None:
    """Write the pages of methods and hosts, and the signatures of the commands in Python."""
    write_text(PAGE, page(), force=True)
    write_text(hosts.PAGE, hosts.page(), force=True)
    write_text(STUBS, stubs(), force=True)


if __name__ == "__main__":
    main()
