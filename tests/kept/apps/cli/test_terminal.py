"""Names and texts that hold terminal commands are shown by every command, not sent."""

from __future__ import annotations

import ast
import io
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.control import Control
from rich.table import Column, Table
from rich.text import Text
from typer.testing import CliRunner

import kept.apps.cli
from kept.apps.cli import app
from kept.apps.cli.console import TerminalConsole
from kept.apps.cli.terminal import visible
from kg_loaders import TextKind, Triple, graph_from_records
from kg_loaders.records import Text as LabelText

FOLDER = Path(kept.apps.cli.__file__).parent
CLEAR, TITLE, EIGHT_BIT, TURNED = "\x1b[2J", "\x1b]0;owned\x07", "\x9b31m", "\u202egnorw"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@given(st.text(st.characters()))
def test_nothing_is_left_that_a_terminal_obeys_and_nothing_else_changes(text: str) -> None:
    printable = visible(text)
    assert not OBEYED.search(printable)
    printable.encode()  # halves of pairs are gone too
    assert json.loads(f'"{json.dumps(text)[1:-1]}"') == text
    if not OBEYED.search(text) and not re.search("[\ud800-\udfff]", text):
        assert printable == text


def test_printed_json_stays_the_same_json() -> None:
    labels = {"label": f"a{EIGHT_BIT}b{TURNED}"}
    printed = visible(json.dumps(labels, ensure_ascii=False))
    assert not OBEYED.search(printed)
    assert json.loads(printed) == labels


def test_a_console_shows_cells_titles_and_styled_texts() -> None:
    console = TerminalConsole()
    console.file = io.StringIO()
    table = Table("name", title=f"of {CLEAR}")
    table.add_row(f"[/red]{TITLE}")
    console.print(table)
    console.print(Text(f"styled {EIGHT_BIT}", "bold"), f"plain {CLEAR}")
    printed = console.file.getvalue()
    assert not OBEYED.search(printed)
    assert "\\u001b[2J" in printed
    assert "[/red]\\u001b]0;owned\\u0007" in printed
    assert "styled \\u009b31m plain \\u001b[2J" in printed


def test_a_console_prints_as_the_first_of_several_processes_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for rank, printed in (("0", "once\n"), ("1", "")):
        monkeypatch.setenv("RANK", rank)
        monkeypatch.setenv("WORLD_SIZE", "2")
        TerminalConsole().print("once")
        assert capsys.readouterr().out == printed
        TerminalConsole(stderr=True).print("once")
        assert capsys.readouterr() == ("", printed)


def test_what_is_piped_is_cut_and_coloured_nowhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    words = "12 words 'quoted' " * 400
    TerminalConsole().print(words.strip())
    assert capsys.readouterr().out == words.strip() + "\n"
    monkeypatch.setenv("COLUMNS", "30")
    TerminalConsole().print("word " * 12)
    assert capsys.readouterr().out.count("\n") == 2
    TerminalConsole(soft_wrap=True).print("word " * 12)
    assert capsys.readouterr().out.count("\n") == 1


def test_a_terminal_gets_no_markup_no_guessed_colours_and_moves_of_its_cursor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    console = TerminalConsole()
    console.file = io.StringIO()
    console.print("12 True 'x' [bold]Q1[/bold]")
    assert console.file.getvalue() == "12 True 'x' [bold]Q1[/bold]\n"
    console.file = io.StringIO()
    console.print(Control.home(), end="")  # as progress bars do
    assert console.file.getvalue() == "\x1b[H"


def test_a_table_is_as_wide_as_its_identifiers_and_the_console_as_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    console = TerminalConsole()
    console.file = io.StringIO()
    for identifier in ("Q1", "Q" * 60, "New York City hall of fame", "words \x1b[2J of a terminal"):
        table = Table("rank", Column("id", no_wrap=True), "label")
        table.add_row("1", identifier, "a label of some words")
        console.print_whole(table)
        assert visible(identifier) in console.file.getvalue()
        assert "label" in console.file.getvalue()
        assert console.width == 20


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A graph whose labels clear the screen, set its title and turn the text round."""
    graph_from_records(
        [
            Triple("Q1", "P1", "Q2"),
            Triple("Q2", "P1", "Q1"),
            LabelText("Q1", TextKind.LABEL, f"Paris{CLEAR}"),
            LabelText("Q2", TextKind.LABEL, f"Seine{TITLE}{TURNED}"),
        ],
        licence=f"CC{EIGHT_BIT}",
    ).save(tmp_path / "kg")
    return tmp_path / "kg"


def test_commands_show_what_names_and_texts_hold(hostile: Path, tmp_path: Path) -> None:
    lines = [
        ["kg", "info", str(hostile)],
        ["kg", "info", str(hostile), "--json"],
        ["kg", "check", str(hostile)],
        ["link", f"Paris{CLEAR} on the Seine{TITLE}{TURNED}.", "--kg", str(hostile)],
        ["link", f"Paris{CLEAR} again", "--kg", str(hostile), "--explain"],
        ["link", f"Paris{EIGHT_BIT}", "--kg", str(hostile), "--json"],
        ["kg", "info", str(tmp_path / f"gone{CLEAR}")],
    ]
    for line in lines:
        result = CliRunner().invoke(app, line)
        printed = re.sub("\x1b\\[(?:0|31)m", "", result.output)  # the colour of an error
        assert printed, line
        assert not OBEYED.search(printed), (line, printed)
    output = CliRunner().invoke(app, lines[3]).output
    assert "Paris\\u001b[2J" in output


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.py")), ids=lambda file: file.name)
def test_commands_print_in_no_other_way(file: Path) -> None:
    if file.name in ("terminal.py", "console.py"):
        return
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "rich.console":
            names = {alias.name for alias in node.names}
            assert "Console" not in names, f"{file}: take kept.apps.cli.console"
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in ("print", "typer.echo", "typer.secho", "sys.stdout.write"), called
