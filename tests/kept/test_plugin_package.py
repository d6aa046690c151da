"""A package outside of kept adds parts, and commands of kept use them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kg_loaders import KnowledgeGraph
from tests.kept.training.tiny_pretraining import write_host
from tests.plugins import EXAMPLE, install, run_commands, write_metadata

SENTENCES = [("old", "Paris is old"), ("new", "the people of Berlin")] * 6


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, small_graph: KnowledgeGraph) -> Path:
    """A folder with a graph, a host and labelled texts, in which the package is installed."""
    folder = tmp_path_factory.mktemp("plugins")
    small_graph.save(folder / "kg")
    write_host(folder / "host")
    lines = "\n".join(f"{label}\t{text}" for label, text in SENTENCES)
    (folder / "texts.tsv").write_text(lines, encoding="utf-8")
    return install(EXAMPLE, folder)


def test_a_method_of_a_package_is_trained_opened_and_in_help(world: Path) -> None:
    finetune, predict, command_help, wrong = run_commands(
        world,
        [
            *("finetune", "--task", "classification", "--format", "tsv", "--train", "texts.tsv"),
            *("--set", "dev_share=0.3", "--kg", "kg", "--method", "degrees", "--host", "host"),
            *("--link", "--steps", 4, "--batch-size", 4, "--threads", 1, "-o", "run"),
        ],
        ["predict", "run", "old Paris", "--kg", "kg", "--json"],
        ["finetune", "--help"],
        ["finetune", "--method", "degreees", "-o", "other"],
    )
    assert finetune[0] == 0, finetune[1]
    config = json.loads((world / "run" / "config.json").read_text(encoding="utf-8"))
    assert config["model_type"] == "kept-degrees"
    assert predict[0] == 0, predict[1]
    assert "greaselm, degrees" in command_help[1].replace("│ │ ", "")
    assert wrong[0] == 1
    assert "there is no method 'degreees'; did you mean degrees?" in wrong[1]


def test_a_run_of_a_method_whose_package_is_gone_says_so(world: Path, tmp_path: Path) -> None:
    line = ["predict", world / "run", "old Paris", "--kg", world / "kg"]
    ((code, output),) = run_commands(tmp_path, line)
    assert code == 1
    assert "model_type 'kept-degrees'" in output
    assert "if it is a plugin's, install that package" in output


def test_a_broken_method_stops_the_commands_that_name_it_alone(world: Path, tmp_path: Path) -> None:
    entries = {"kept.methods": {"gone": "no_such_module:METHOD", "kbert": "no_such_module:KBERT"}}
    write_metadata(tmp_path, "plug-broken", "2", entries)
    flags = [
        *("finetune", "--task", "classification", "--format", "tsv", "--train"),
        *(world / "texts.tsv", "--set", "dev_share=0.3", "--kg", world / "kg", "--link"),
        *("--host", world / "host", "--steps", 1, "--batch-size", 4, "--threads", 1),
    ]
    fine, broken, clash = run_commands(
        tmp_path,
        [*flags, "--method", "none", "-o", "a"],
        [*flags, "--method", "gone", "-o", "b"],
        [*flags, "--method", "kbert", "-o", "c"],
    )
    assert fine[0] == 0, fine[1]
    assert (broken[0], clash[0]) == (1, 1)
    assert "plugin 'gone' of plug-broken 2" in broken[1]
    assert "pip uninstall plug-broken" in broken[1]
    assert "method 'kbert' is ambiguous: kept has a method of that name" in clash[1]
    assert not (tmp_path / "b").exists()
    assert not (tmp_path / "c").exists()
