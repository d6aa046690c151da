"""Help texts: plain sentences, and the same words for the same option in every command."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
import typer
from click import Command, Parameter
from typer.testing import CliRunner

from kept.apps.cli import app
from tests import names

SAME = (
    "--as-published", "--cluster", "--config", "--damage", "--device", "--fd", "--gold",
    "--labels", "--aliases", "--descriptions", "--relation-labels", "--redirects", "--resume",
    "--reranker", "--shard", "--skip-damaged", "--threads", "--tokenizer", "--track",
)  # fmt: skip
"""Options that mean the same in every command that has them, but for variants listed below."""
VARIANTS = {
    "--damage": 2,  # of a graph's files, and of a file of texts
    "--labels": 2,  # of `kept kg`, and of a file in the place of a graph
    "--aliases": 2,
    "--config": 2,  # of a run, and of the demo
    "--resume": 2,  # a run of training, and a file that is written
}


def commands() -> Iterator[tuple[str, Command]]:
    """Return every command and group with the words that call it."""
    waiting: list[tuple[str, Command]] = [("kept", typer.main.get_command(app))]
    while waiting:
        words, command = waiting.pop(0)
        yield words, command
        for name, child in getattr(command, "commands", {}).items():
            waiting.append((f"{words} {name}", child))


def options() -> list[tuple[str, Parameter, str]]:
    """Return every option and argument that kept declares, with its command and its help."""
    rows = []
    for words, command in commands():
        for each in command.params:
            if each.name not in ("help", "install_completion", "show_completion"):
                rows.append((words, each, getattr(each, "help", None) or ""))
    return rows


@pytest.mark.parametrize("flag", SAME)
def test_the_same_option_has_the_same_help(flag: str) -> None:
    texts = {text for _, each, text in options() if flag in each.opts}
    assert len(texts) == VARIANTS.get(flag, 1)


def test_every_option_has_a_sentence() -> None:
    for words, each, text in options():
        start = text.lstrip("`([{.'\"")
        assert text.endswith((".", ")", "…")), f"{words} {each.opts}: {text!r} is no sentence"
        assert start[:1].isupper() or ":" in start[:30] or "{" in text[:2], f"{words}: {text!r}"


def test_no_help_begins_with_what_it_is_of() -> None:
    """'Of everything random.' says neither what is set nor how."""
    cryptic = ("Of ", "At most", "Instead of", "The same,", "Until ", "Most ", "So many")
    wrong = [(words, each.opts) for words, each, text in options() if text.startswith(cryptic)]
    assert wrong == []


def test_no_help_has_a_word_of_the_left_column() -> None:
    """The words that have no other use in English than in the sense that the glossary replaces."""
    words = {word for word, (kind, _) in names.glossary().items() if kind == "part"}
    wrong = []
    for name, command in commands():
        for text in [command.help or "", *(t for c, _, t in options() if c == name)]:
            wrong += [(name, word) for word in words if word in text.lower().split()]
    assert wrong == []


def test_paragraphs_of_a_help_are_as_wide_as_the_terminal() -> None:
    """A line ends early only where a paragraph ends, or the next word does not fit."""
    for words, _ in commands():
        printed = CliRunner().invoke(app, [*words.split()[1:], "--help"], env={"COLUMNS": "80"})
        head = printed.output.partition("╭")[0].split("\n")
        for line, after in pairwise(head):
            text, following = line.strip(), after.strip()
            if not text or not following or text.startswith("Usage:") or words == "kept":
                continue
            fits = len(text) + 1 + len(following.split()[0]) <= 78
            assert not fits, f"{words} --help: {text!r} ends before {following!r}"
