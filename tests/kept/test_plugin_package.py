"""A package outside of kept adds parts, and commands of kept use them."""

from __future__ import annotations

import itertools
import json
import re
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
    assert re.search(r"[a-z], degrees\b", command_help[1].replace("│ │ ", ""))
    assert wrong[0] == 1
    assert "there is no method 'degreees'; did you mean degrees?" in wrong[1]


def test_a_format_of_graphs_and_a_scorer_of_a_package(world: Path) -> None:
    names = [f"{letter}{n:02}" for letter in "ab" for n in range(12)]
    facts = [f"{one} -next-> {two}" for one, two in itertools.pairwise(names)]
    facts += [f"{two} -previous-> {one}" for one, two in itertools.pairwise(names)]
    (world / "facts.arrows").write_text("\n".join(facts), encoding="utf-8")
    (world / "broken.arrows").write_text("a -next-> b\nnothing", encoding="utf-8")
    build, broken, train, scores, answer, refused = run_commands(
        world,
        ["kg", "build", "facts.arrows", "-o", "graph"],
        ["kg", "build", "broken.arrows", "--format", "arrows", "-o", "other"],
        [
            *("kgc", "train", "graph", "--scorer", "pairre", "--epochs", 3, "--width", 8),
            *("--set", "reciprocal=true", "-o", "scorer"),
        ],
        ["kgc", "eval", "graph", "-m", "scorer", "--json"],
        ["kgc", "predict", "a03", "next", "--kg", "graph", "-m", "scorer", "--top", 3],
        ["kgc", "train", "graph", "--scorer", "pairre", "--set", "gamma=2", "-o", "third"],
    )
    assert build[0] == 0, build[1]
    graph = KnowledgeGraph.open(world / "graph")
    assert (graph.n_triples, graph.n_entities, graph.n_relations) == (46, 24, 2)
    assert broken[0] == 1
    assert "broken.arrows, line 2" in broken[1]
    assert train[0] == 0, train[1]
    assert "pairre with inverse relations, 3 epochs" in train[1]
    described = json.loads((world / "scorer" / "model.json").read_text(encoding="utf-8"))
    assert (described["scorer"], described["width"], described["reciprocal"]) == ("pairre", 8, True)
    assert json.loads(scores[1])["n_scored"] > 0
    assert answer[0] == 0, answer[1]
    assert refused[0] == 1
    assert "pairre takes no --gamma; it takes --epochs, --width, --reciprocal" in refused[1]


def test_a_task_of_a_package_is_learned_and_answered(world: Path) -> None:
    """Its loss and its answers are its kind's."""
    finetune, predict, wrong = run_commands(
        world,
        [
            *("finetune", "--task", "grades", "--format", "graded", "--train", "texts.tsv"),
            *("--set", "dev_share=0.3", "--kg", "kg", "--method", "none", "--host", "host"),
            *("--steps", 4, "--batch-size", 4, "--threads", 1, "-o", "grades"),
        ],
        ["predict", "grades", "old Paris", "--kg", "kg", "--json"],
        [
            *("finetune", "--task", "grades", "--format", "tsv", "--train", "texts.tsv"),
            *("--kg", "kg", "--method", "none", "--steps", 4, "--batch-size", 4, "-o", "not"),
        ],
    )
    assert finetune[0] == 0, finetune[1]
    config = json.loads((world / "grades" / "config.json").read_text(encoding="utf-8"))
    assert config["problem_type"] == "grades"
    metrics = json.loads((world / "grades" / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["dev"]["n_scored"] > 0
    assert "macro" in metrics["dev"]
    assert predict[0] == 0, predict[1]
    assert wrong[0] == 1
    assert "format tsv holds no grades; give one of ['graded']" in wrong[1]


def test_doctor_lists_plugins_and_those_that_cannot_be_used(world: Path, tmp_path: Path) -> None:
    install(EXAMPLE, tmp_path)
    write_metadata(
        tmp_path, "plug-broken", "2", {"kept.loaders": {"tsv": "example_parts.arrows:FORMAT"}}
    )
    ((code, output),) = run_commands(tmp_path, ["doctor", "--json"])
    findings = {(each["group"], each["name"]): each for each in json.loads(output)}
    for group, name in (
        *(("kept.methods", "degrees"), ("kept.loaders", "arrows"), ("kept.scorers", "pairre")),
        *(("kept.tasks", "grades"), ("kept.formats", "graded")),
    ):
        finding = findings["plugins", f"{group} {name}"]
        assert (finding["state"], finding["says"][:17]) == ("ok", "example-parts 1.0")
    clash = findings["plugins", "kept.loaders tsv"]
    assert (code, clash["state"]) == (1, "faulty")
    assert "kept has a format of that name" in clash["says"]
    assert clash["remedy"] == "pip uninstall plug-broken"


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
