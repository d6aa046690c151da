"""What a command loads before it has anything to do: nothing that takes seconds."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
import typer

from entity_linking.names.rules.case import CASES
from kept.apps.cli import _called, app
from kept.apps.cli.first_screen import EXAMPLES, PANELS, WIDEST, first_screen, panels
from kept.apps.cli.link.inputs import FORMATS as LINK_FORMATS
from kept.apps.cli.training.fit import fit_command
from kept.errors import ConfigError
from kept.linking.linkers import METHODS as LINK_METHODS
from kept.methods import METHODS
from kept.objectives.model import OBJECTIVES
from kept.training.extending.starts import STARTS
from kg_loaders import FORMATS as GRAPH_FORMATS
from kg_loaders import KnowledgeGraph

Loaded = Callable[..., tuple[int, str, str]]


def commands(
    group: object = None, names: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], object]]:
    """Every command of the tree, with the words that call it."""
    group = typer.main.get_command(app) if group is None else group
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        if hasattr(command, "commands"):
            yield from commands(command, (*names, name))
        else:
            yield (*names, name), command


COMMANDS = [names for names, _ in commands()]


def test_every_command_was_found() -> None:
    assert len(COMMANDS) >= 22, COMMANDS


def test_what_loads_them_is_seen(loaded: Loaded, tmp_path: Path) -> None:
    """The measurement itself: a command that does load pyarrow is caught."""
    (tmp_path / "t.tsv").write_text("a\tr\tb\n")
    code, modules, _ = loaded("kg", "build", str(tmp_path / "t.tsv"), "-o", str(tmp_path / "kg"))
    assert code == 0
    assert "pyarrow" in modules


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (["--help"], 0),
        ([], 2),
        (["kg", "--help"], 0),
        (["kgc", "--help"], 0),
        (["finetunne"], 2),
        (["--no-such-option"], 2),
        (["kgc", "trian"], 2),
    ],
)
def test_help_and_mistyped_commands_load_nothing_heavy(
    line: list[str], code: int, loaded: Loaded
) -> None:
    assert loaded(*line)[:2] == (code, "")


def test_a_faulty_line_is_told_in_plain_lines(loaded: Loaded) -> None:
    """And is known before the library that draws boxes is loaded, which takes as long as all."""
    code, modules, output = loaded("link", "--no-such-option", more=["rich"])
    assert (code, modules) == (2, "")
    *_, last = output.splitlines()
    assert last == "Error: No such option: --no-such-option"


def test_a_command_is_made_alone_and_a_word_that_is_none_has_all_of_them_to_choose_from() -> None:
    names = {names[0] for names in COMMANDS}
    for name in names:
        command = typer.main.get_command(_called([name, "--help", "link"]))
        assert list(command.commands) == [name]  # type: ignore[attr-defined]
    for words in ([], ["--help"], ["lnk"], ["--offline", "link"], ["--limits", "link"]):
        command = typer.main.get_command(_called(words))
        assert set(command.commands) == names  # type: ignore[attr-defined]


@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_a_mistyped_option_loads_nothing_heavy(names: tuple[str, ...], loaded: Loaded) -> None:
    code, modules, output = loaded(*names, "--no-such-option")
    assert (code, modules) == (2, "")
    assert "no-such-option" in output


@pytest.mark.parametrize(
    ("line", "tables"),
    [
        (["pretrain"], [METHODS, OBJECTIVES]),
        (["kg", "build"], [GRAPH_FORMATS]),
        (["extend"], [STARTS]),
        (["link"], [LINK_METHODS, LINK_FORMATS, CASES]),
        (["link", "index"], [CASES]),
        (["link", "calibrate"], [LINK_METHODS]),
    ],
    ids=["pretrain", "kg build", "extend", "link", "link index", "link calibrate"],
)
def test_help_names_the_lines_of_tables_without_loading_them(
    line: list[str], tables: list[Iterable[str]], loaded: Loaded
) -> None:
    code, modules, output = loaded(*line, "--help")
    assert (code, modules) == (0, "")
    page = " ".join(output.replace("│", " ").split())
    for table in tables:
        assert ", ".join(table) in page


def test_the_first_screen_names_every_command_as_typer_does(loaded: Loaded) -> None:
    """Besides the examples, and without the library that draws boxes."""
    code, modules, output = loaded("--help", more=["rich"])
    assert (code, modules) == (0, "")
    whole = typer.main.get_command(app)
    words = " ".join(output.split())
    for name, command in whole.commands.items():  # type: ignore[attr-defined]
        summary = " ".join((command.help or "").split("\n\n")[0].split())
        assert f" {name} {summary}" in words, name
    for option in whole.params:
        assert all(f" {each} " in words for each in option.opts), option.opts
    for line, _ in EXAMPLES:
        assert line in words


@pytest.mark.parametrize("width", [1, 40, 80, 10_000])
def test_the_first_screen_fits_the_window(width: int) -> None:
    longest = max(len(line) for line in first_screen(app, width).splitlines())
    whole = [line for line, _ in EXAMPLES] + [
        "kept COMMAND --help explains a command, with an example."
    ]
    assert longest <= max(min(width, WIDEST), *(len(line) + 2 for line in whole))


def test_examples_of_the_first_screen_are_command_lines() -> None:
    whole = typer.main.get_command(app)
    for line, _ in EXAMPLES:
        _, name, *words = shlex.split(line)
        command = whole.commands[name]  # type: ignore[attr-defined]
        commands = getattr(command, "commands", {})
        if commands:  # `kept link TEXT` is `kept link text TEXT`
            command = commands.get(words[0]) or commands["text"]
        known = {each for option in command.params for each in option.opts}
        assert {word for word in words if word.startswith("--")} <= known


def test_every_command_has_its_panel() -> None:
    assert list(panels(app)) == list(PANELS)
    assert all(panels(app).values())


def test_a_slip_in_a_table_is_answered_before_what_trains_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "kept.apps.cli.training.fit_run", None)
    (tmp_path / "kg").mkdir()
    (tmp_path / "bad.csv").write_text("sentence,class_name\nhello,1\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="has no column for label"):
        fit_command(data=tmp_path / "bad.csv", kg=tmp_path / "kg")


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (["compare", "--task", "wiki8"], "no experiment 'wiki8'"),
        (["compare", "--task", "mine.yaml", "--methods", "ernie,nonne"], "no method 'nonne'"),
        (["compare", "--task", "mine.yaml", "--methods", "mine,ernie"], "train.tsv does not exist"),
        (["compare", "--task", "mine.yaml", "--controls", "of"], "no control 'of'"),
        (["compare", "--task", "mine.yaml", "--controls", "true"], "no control 'true'"),
        (["compare", "--task", "mine.yaml", "--kg", "none"], "none is not a knowledge graph"),
        (["predict", "none", "A text.", "--kg", "kg"], "none has no finetune.json"),
        (["predict", "run", "A text.", "--kg", "none"], "none is not a knowledge graph"),
        (["finetune", "texts.csv", "--method", "none", "--kg", "none", "-o", "new"], "none is not"),
        (["pretrain", "--method", "ernie", "--kg", "none", "-o", "new"], "none is not"),
        (["fit", "texts.csv", "--kg", "none"], "none is not a knowledge graph"),
    ],
)
def test_a_slip_in_a_path_or_a_name_is_answered_before_torch_is_loaded(
    line: list[str], fault: str, loaded: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KEPT_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    for name in ("none", "run"):
        (tmp_path / name).mkdir()
    (tmp_path / "run" / "finetune.json").write_text("{}")
    (tmp_path / "texts.csv").write_text("text,label\nhello,1\n")
    (tmp_path / "mine.yaml").write_text("task:\n  train: train.tsv\nmethods:\n  mine: {}\n")
    KnowledgeGraph.from_triples([("a", "r", "b")]).save(tmp_path / "kg")
    code, modules, output = loaded(*line, more=["torch", "transformers"])
    assert code
    assert not {"torch", "transformers"} & set(modules.split()), modules
    assert fault in " ".join(output.split())
