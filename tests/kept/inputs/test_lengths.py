"""The length of texts where a user gives none: what the host reads, resolved when a run starts."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from kept.auto import AutoEncoder
from kept.graphs.builder import BuilderConfig
from kept.inputs.lengths import builder_on, with_lengths
from kept.methods import METHODS
from kept.training.finetuning.config import FinetuneConfig
from kept.training.finetuning.recipes import with_defaults
from kept.training.pretraining.config import PretrainConfig
from kg_loaders import KnowledgeGraph
from tests.kept.training.tiny_pretraining import write_host

N_POSITIONS = 64


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_host(tmp_path_factory.mktemp("host"))


@pytest.mark.parametrize(
    ("method", "n_words"),
    [("none", 64), ("ernie", 64), ("words", 64), ("ebert", 64), ("kbert", 52), ("colake", 62)],
)
def test_the_default_is_what_the_host_reads(method: str, n_words: int, host: Path) -> None:
    fields = with_lengths({"method": method, "host": str(host)})
    assert fields["graph"]["max_words"] == n_words
    assert BuilderConfig(**fields["graph"]).max_nodes == 2 * n_words


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ({"max_words": 20}, (20, 256)),
        ({"max_words": 20, "max_nodes": 40}, (20, 40)),
        ({"max_nodes": 30}, (15, 30)),
        ({"max_neighbours": 3}, (64, 128)),
        ({}, (64, 128)),
    ],
)
def test_what_is_given_stays(graph: dict[str, int], expected: tuple[int, int], host: Path) -> None:
    fields = with_lengths({"method": "none", "host": str(host), "graph": graph})["graph"]
    assert (fields["max_words"], fields["max_nodes"]) == expected
    assert graph.items() <= fields.items()


@pytest.mark.parametrize(
    "fields",
    [
        {"method": "kbrt"}, {"method": "none", "host": "no/such/host"}, {"method": 3},
        {"method": "none", "host": ["a"]}, {"method": "none", "graph": "large"},
        {"method": "none", "view": 3}, {"model": "runs/a"}, {"method": "none", "host": "a\0b"},
        {"method": "none", "host": "smollm2"},
    ],
)  # fmt: skip
def test_what_is_no_run_is_left_to_the_configuration(fields: dict[str, Any]) -> None:
    assert with_lengths(fields) == fields


@pytest.mark.parametrize("view", [{"max_pieces": "x"}, {"max_pieces": 900}, {"max_pieces": -1}])
def test_strange_sizes_of_a_view_are_left_to_the_view(view: dict[str, Any], host: Path) -> None:
    fields = with_lengths({"method": "kbert", "host": str(host), "view": view})
    assert fields["graph"]["max_words"] >= 3
    assert fields["view"].items() >= view.items()


def test_trees_have_no_view(host: Path) -> None:
    fields = with_lengths({"method": "kbert", "host": str(host), "treebank": ["a.conllu"]})
    assert "view" not in fields


def test_configurations_that_are_read_otherwise_keep_128(tmp_path: Path) -> None:
    """Addresses of comparisons are made from these."""
    assert BuilderConfig().max_words == 128
    assert (
        PretrainConfig(text=(tmp_path,), kg=tmp_path, training={"steps": 1, "batch_size": 1}).graph
        == BuilderConfig()
    )  # type: ignore[arg-type]
    config = FinetuneConfig.read(
        None,
        {
            "task": "typing", "format": "table", "train": tmp_path, "kg": tmp_path,
            "method": "none", "dev": tmp_path, "training": {"steps": 1, "batch_size": 1},
        },
    )  # fmt: skip
    assert config.graph is None


def test_a_model_brings_its_own_length(
    tmp_path: Path, host: Path, small_graph: KnowledgeGraph
) -> None:
    encoder = AutoEncoder.from_host("kbert", host, small_graph)
    encoder.save_pretrained(tmp_path / "run")
    fields = with_defaults(
        {"task": "typing", "model": tmp_path / "run", "graph": {"policy": "degree"}}
    )
    assert fields["graph"] == {"policy": "degree", "max_words": 52, "max_nodes": 104}
    assert with_defaults({"task": "typing", "model": tmp_path / "run"}).get("graph") is None


@pytest.mark.parametrize("method", [name for name in METHODS if METHODS[name].reads == "links"])
def test_no_method_leaves_the_positions_of_its_host(
    method: str, host: Path, small_graph: KnowledgeGraph
) -> None:
    """Mentions from the first to the last word that is read, with all the facts of each."""
    encoder = AutoEncoder.from_host(method, host, small_graph, untrained=True)
    places = " ".join(["Paris"] * 40)
    for n in range(40, 64, 3):
        text = f"{'a ' * n}Paris {places}"
        vectors = encoder.encode([text], kg=small_graph)
        assert vectors.sentences.isfinite().all()


def test_options_of_the_view_win(host: Path) -> None:
    builder, view = builder_on(host, "words", {"max_nodes": 40})
    assert view == {"max_nodes": 40}
    assert asdict(builder)["max_words"] == N_POSITIONS
