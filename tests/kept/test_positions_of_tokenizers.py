"""A tokenizer that is opened knows how many positions its host has, as do the views made of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from entity_linking import DictionaryLinker
from entity_linking.randomness import generator
from kept.auto import AutoEncoder
from kept.graphs.builder import BuilderConfig, build
from kept.hosts import load_host, load_tokenizer, n_positions
from kept.inputs.views import builder_for, view_for
from kept.methods import METHODS
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_hosts import FAMILIES, tiny_host


@pytest.mark.parametrize("family", FAMILIES)
def test_no_more_than_the_hosts_positions(family: str, tokenizer: Any, tmp_path: Path) -> None:
    tiny_host(family, n_words=len(tokenizer)).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert tokenizer.model_max_length > 10**6, "the tests' tokenizer states no maximum"
    assert load_tokenizer(tmp_path).model_max_length == n_positions(load_host(tmp_path))


@pytest.mark.parametrize("form", ["concat", "replace"])
def test_a_text_full_of_links_fits_a_host_without_a_maximum(
    form: str, tokenizer: Any, small_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    """Thirty words and twice as many nodes for entities once came to a host of 32 positions."""
    tiny_host(n_words=len(tokenizer)).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    tokenizer = load_tokenizer(tmp_path)
    view = view_for(METHODS["ebert"], small_graph, tokenizer, {"form": form})
    (linked,) = DictionaryLinker(small_graph).link(["Paris and Berlin " * 9])
    builder = BuilderConfig(max_words=30, max_nodes=90)
    config = builder_for(METHODS["ebert"], builder, {"form": form})
    graph = build(linked, tokenizer, small_graph, generator=generator(0), config=config)
    assert view(graph).node_ids.shape[1] <= 32


def test_a_run_that_was_saved_without_a_maximum(
    tokenizer: Any, small_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    tiny_host(n_words=len(tokenizer)).save_pretrained(tmp_path / "host")
    tokenizer.save_pretrained(tmp_path / "host")
    encoder = AutoEncoder.from_host(
        "ebert", tmp_path / "host", small_graph, untrained=True, vectors="facts"
    )
    encoder.save_pretrained(tmp_path / "run")
    (tmp_path / "run" / "checksums.json").unlink()
    tokenizer.save_pretrained(tmp_path / "run")  # as older runs have it
    assert load_tokenizer(tmp_path / "run").model_max_length == 32
