"""kept/apps/commands.pyi says what the commands declare."""

from tests.docs.stubs import STUBS, stubs


def test_the_signatures_are_as_they_are_declared() -> None:
    assert STUBS.read_text(encoding="utf-8") == stubs(), "run python -m tests.docs"
