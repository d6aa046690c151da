"""The page of complaints: every test, page, file and command that it names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from kept.apps.cli import app

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/results/pains.md"
ROWS = re.findall(r"^\| (\d+) \| (.+) \| (.+) \| (.+) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
COMMANDS = re.findall(r"`kept ([^`]+)`", PAGE.read_text("utf-8"))


def test_each_complaint_has_an_answer_a_test_and_those_in_part_say_so() -> None:
    assert [int(number) for number, *_ in ROWS] == list(range(1, 31))
    in_part = [int(number) for number, _, answer, _ in ROWS if "*in part*" in answer]
    assert in_part == [8, 27]
    assert f"{30 - len(in_part)} of 30 are answered; two in part" in PAGE.read_text("utf-8")
    for _, complaint, _, evidence in ROWS:
        assert re.search(r"#\d+", complaint), f"{complaint} does not say where it was said"
        assert re.search(r"`tests/[\w/]+\.py::test_\w+`", evidence)


@pytest.mark.parametrize(
    ("file", "test"), re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", PAGE.read_text("utf-8"))
)
def test_the_test_is_there(file: str, test: str) -> None:
    assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8")


def test_pages_and_benchmarks_are_there() -> None:
    pages = re.findall(r"\]\(([\w./-]+\.md)\)", PAGE.read_text("utf-8"))
    programs = re.findall(r"`python (benchmarks/\w+/\w+\.py)`", PAGE.read_text("utf-8"))
    assert len(pages) > 10
    assert len(programs) >= 2
    for name in pages:
        assert (ROOT / "docs/results" / name).is_file(), name
    for name in programs:
        assert (ROOT / name).is_file(), name


@pytest.mark.parametrize("command", sorted(set(COMMANDS)))
def test_the_command_and_its_options_are_there(command: str) -> None:
    command_ = typer.main.get_command(app)
    words = command.split()
    context = typer.Context(command_)
    while words and hasattr(command_, "get_command"):
        below = command_.get_command(context, words[0])
        if below is None:
            break
        command_, words = below, words[1:]
    assert command_.name != "kept", command
    options = {name for each in command_.params for name in getattr(each, "opts", [])}
    assert {word for word in words if word.startswith("--")} <= options, command
