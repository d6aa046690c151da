"""`AutoEncoder`: any saved run, from texts to vectors, and what it refuses."""

from __future__ import annotations

import dataclasses
import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import kept
from entity_linking import DictionaryLinker, LinkedText, gold_link
from kept.auto import AutoEncoder, saved_builder
from kept.errors import CheckpointError, ConfigError, HostError
from kept.graphs.builder import BuilderConfig
from kept.graphs.views import WORDS_ONLY, WordsView
from kept.heads.model import KnowledgeForTask
from kept.methods import METHODS
from kept.objectives.model import KnowledgeForPreTraining
from kg_loaders import KnowledgeGraph, Triple, graph_from_records
from kg_loaders.errors import GraphMismatchError
from kg_loaders.records import Text, TextKind
from tests.kept.tiny_hosts import method_encoder, tiny_host

TEXTS = [
    "the old city of Paris and the river Seine",
    "a river",
    "Berlin and Paris",
    "the French city near Germany",
]


@pytest.fixture(scope="module", params=METHODS)
def method(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=["bare", "pretrained", "finetuned"])
def folder(
    request: pytest.FixtureRequest,
    method: str,
    tmp_path_factory: pytest.TempPathFactory,
    small_graph: KnowledgeGraph,
    tokenizer: Any,
) -> Path:
    """A saved model of every kind, with its tokenizer and what its run wrote."""
    path = tmp_path_factory.mktemp(f"{request.param}-{method}")
    encoder = method_encoder(method, small_graph, tokenizer)
    settings = {"graph": dataclasses.asdict(BuilderConfig(max_neighbours=2, drop_probability=0.5))}
    if request.param == "bare":
        encoder.save_pretrained(path)
    elif request.param == "pretrained":
        KnowledgeForPreTraining.of(encoder, METHODS[method].objectives).save_pretrained(path)
        (path / "pretrain.json").write_text(json.dumps(settings), encoding="utf-8")
    else:
        KnowledgeForTask.of(encoder, "pooled", ["a", "b"]).save_pretrained(path)
        (path / "finetune.json").write_text(json.dumps(settings), encoding="utf-8")
    tokenizer.save_pretrained(path)
    return path


def test_every_saved_run_encodes(folder: Path, small_graph: KnowledgeGraph) -> None:
    auto = kept.AutoEncoder.from_pretrained(folder)
    is_weights_alone = not any(
        (folder / name).exists() for name in ("pretrain.json", "finetune.json")
    )
    if METHODS["colake"] is auto.method:
        assert auto.builder.max_neighbours == (15 if is_weights_alone else 2)
    assert auto.builder.drop_probability == 0
    encoded = auto.encode(TEXTS, kg=small_graph)
    assert len(encoded) == len(TEXTS)
    assert encoded.sentences.shape == (4, 16)
    assert not encoded.sentences.requires_grad
    for text, sentence, original in zip(encoded, encoded.sentences, TEXTS, strict=True):
        assert text.linked.text == original
        assert torch.equal(text.sentence, sentence)
        covered = [original[a:b] for a, b in text.token_spans.tolist()]
        assert "".join(covered).replace(" ", "") == original.replace(" ", "")
        assert text.tokens.shape == (len(covered), 16)
        assert text.sentence.allclose(text.tokens.mean(0))
        assert len(text.mentions) == len(text.links)
        for link, vector in zip(text.links, text.mentions, strict=True):
            inside = [
                i
                for i, (a, b) in enumerate(text.token_spans.tolist())
                if a < link.mention.end and b > link.mention.start
            ]
            torch.testing.assert_close(vector, text.tokens[inside].mean(0))
        if text.entities is not None:
            assert len(text.entities.names) == len(text.entities.vectors)
            for name, index in zip(text.entities.names, text.entities.links, strict=True):
                assert index is None or text.linked.links[index].entity == name
    linked = [link.entity for link in encoded[0].links]
    assert linked == ["Q90", "Q1471"]
    again = AutoEncoder.from_pretrained(folder).encode(TEXTS, kg=small_graph)
    assert torch.equal(again.sentences, encoded.sentences)


def test_a_text_is_encoded_the_same_in_any_company(
    method: str, small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    auto = AutoEncoder(method_encoder(method, small_graph, tokenizer), tokenizer)
    whole = auto.encode(TEXTS, kg=small_graph)
    small = auto.encode(TEXTS[::-1], kg=small_graph, batch_size=1)
    for one, other in zip(whole, list(small)[::-1], strict=True):
        torch.testing.assert_close(one.tokens, other.tokens, atol=1e-5, rtol=1e-5)
    assert auto.encode("a river", kg=small_graph).sentences.shape == (1, 16)
    assert auto.encode([], kg=small_graph).sentences.shape == (0, 16)
    assert repr(whole) == "Encoded(4 texts, sentences [4, 16])"


def test_colake_has_vectors_of_anchors_and_neighbours(
    small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    auto = AutoEncoder(method_encoder("colake", small_graph, tokenizer), tokenizer)
    (text,) = auto.encode(["Berlin and Paris"], kg=small_graph)
    assert text.entities is not None
    assert text.entities.names[:2] == ("Q64", "Q90")
    assert text.entities.links[:2] == (0, 1)
    assert {"Q183", "Q142"} <= set(text.entities.names[2:])
    assert set(text.entities.links[2:]) == {None}
    assert torch.equal(text.entities.vectors[:2], text.mentions)
    assert torch.equal(text.tokens[0], text.mentions[0])
    assert auto.encode(["a river"], kg=small_graph)[0].entities is None


def test_linkers_and_linked_texts(
    small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path
) -> None:
    auto = AutoEncoder(method_encoder("colake", small_graph, tokenizer), tokenizer)
    by_graph = auto.encode(["Paris"], kg=small_graph)
    small_graph.save(tmp_path / "kg")
    by_path = auto.encode(["Paris"], kg=tmp_path / "kg")
    labelled = LinkedText("Paris", (gold_link(0, 5, "Q90"),))
    mine = DictionaryLinker(small_graph)
    for other in (
        by_path,
        auto.encode([labelled], kg=small_graph),
        auto.encode(["Paris"], kg=small_graph, linker=mine),
    ):
        assert torch.equal(other.sentences, by_graph.sentences)
    texas = LinkedText("Paris", (gold_link(0, 5, "Q830149"),))
    both = auto.encode([texas, "Paris"], kg=small_graph)
    assert not torch.equal(both.sentences[0], both.sentences[1])


def test_another_graph_or_none_is_refused(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    auto = AutoEncoder(method_encoder("colake", small_graph, tokenizer), tokenizer)
    other = graph_from_records([Triple("Q1", "P1", "Q2")])
    with pytest.raises(GraphMismatchError, match=other.id_space_hash):
        auto.encode(["Paris"], kg=other)
    with pytest.raises(ConfigError, match="CoLAKE reads the graph whenever it encodes"):
        auto.encode(["Paris"])


def test_a_method_that_reads_no_graph_needs_none(
    small_graph: KnowledgeGraph, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = dataclasses.replace(METHODS["colake"], view=WordsView, builder=WORDS_ONLY)
    monkeypatch.setitem(METHODS.built_in, "colake", line)
    auto = AutoEncoder(method_encoder("colake", small_graph, tokenizer), tokenizer)
    linked = LinkedText("old Paris", (gold_link(4, 9, "Q90"),))
    (alone, plain) = auto.encode([linked, "old Paris"])
    assert [link.entity for link in alone.links] == ["Q90"]
    assert len(plain.links) == 0
    assert alone.entities is None
    assert torch.equal(alone.tokens, plain.tokens)
    (with_graph,) = auto.encode(["old Paris"], kg=small_graph)
    assert [link.entity for link in with_graph.links] == ["Q90"]
    torch.testing.assert_close(with_graph.mentions, alone.mentions)


def test_a_folder_without_tokenizer_or_settings(
    small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path
) -> None:
    encoder = method_encoder("colake", small_graph, tokenizer)
    encoder.save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match="has no tokenizer; save that of its host"):
        AutoEncoder.from_pretrained(tmp_path)
    auto = AutoEncoder.from_pretrained(tmp_path, tokenizer=tokenizer)
    assert auto.encode(TEXTS, kg=small_graph).sentences.isfinite().all()
    assert saved_builder(tmp_path) == BuilderConfig()
    (tmp_path / "pretrain.json").write_text('{"graph": {"max_neighbour": 3}}', encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"pretrain\.json is not what a run wrote"):
        saved_builder(tmp_path)
    (tmp_path / "pretrain.json").write_text('{"graph": {"max_words": 9}}', encoding="utf-8")
    auto = AutoEncoder.from_pretrained(tmp_path, tokenizer=tokenizer)
    assert auto.builder.max_words == 9
    shutil.rmtree(tmp_path)
    with pytest.raises(HostError, match="does not exist"):
        AutoEncoder.from_pretrained(tmp_path)


def test_from_host(small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path) -> None:
    tiny_host(n_words=len(tokenizer), n_positions=128).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    for name, line in METHODS.items():
        if line.needs_training:
            with pytest.raises(ConfigError, match=f"{name} must be trained before"):
                AutoEncoder.from_host(name, tmp_path, small_graph)
        auto = AutoEncoder.from_host(name, tmp_path, small_graph, untrained=line.needs_training)
        again = AutoEncoder.from_host(name, tmp_path, small_graph, untrained=line.needs_training)
        one, other = (encoder.encode(TEXTS, kg=small_graph) for encoder in (auto, again))
        assert torch.equal(one.sentences, other.sentences)
    with pytest.raises(ConfigError, match="there is no method"):
        AutoEncoder.from_host("colak", tmp_path, small_graph)


@pytest.mark.minilm
def test_the_example_for_readers(tmp_path: Path) -> None:
    from kept import AutoEncoder, atlas

    world = atlas.graph()
    encoder = AutoEncoder.from_host("colake", "minilm", kg=world, untrained=True)
    encoded = encoder.encode(["Tim Cook is visiting Beijing.", "Hello."], kg=world)
    assert encoded.sentences.shape == (2, 384)
    assert [encoded[0].linked.text[a:b] for a, b in encoded[0].token_spans.tolist()][-1] == "."


def test_a_new_encoder_has_the_recipe_unless_as_published(
    small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path
) -> None:
    tiny_host(n_words=len(tokenizer), n_positions=128).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    for name, line in METHODS.items():
        make = partial(AutoEncoder.from_host, name, tmp_path, small_graph, untrained=True)
        usual, published = make(), make(as_published=True)
        settings = make(as_published=True, view=line.recipe.view, **line.recipe.options)
        same, other = (
            all(value.equal(weights.encoder.state_dict().get(key)) for key, value in
                usual.encoder.state_dict().items())
            for weights in (settings, published)
        )  # fmt: skip
        assert same, name
        assert usual.view == {**published.view, **line.recipe.view}, name
        assert usual.encoder.config.to_dict() == settings.encoder.config.to_dict()
        for field, value in line.recipe.graph.items():
            assert getattr(usual.builder, field) == value != getattr(published.builder, field)
        if name in ("ernie", "ebert"):
            assert not other, name
        if name in ("colake", "knowbert"):
            assert usual.encoder.config.to_dict() != published.encoder.config.to_dict()
    settings = AutoEncoder.from_host("kbert", tmp_path, small_graph, view={"max_branches": 3})
    assert settings.view["max_branches"] == 3
    builder = BuilderConfig(max_words=20)
    kept_as_given = AutoEncoder.from_host("kbert", tmp_path, small_graph, builder=builder).builder
    assert kept_as_given.directions == builder.directions


def test_a_fact_about_a_tail_reaches_a_mention_by_the_recipe_alone(
    small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path
) -> None:
    """Berlin is a tail alone here: as published K-BERT shows no fact about it."""
    tiny_host(n_words=len(tokenizer), n_positions=128).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    labels = [("a", "Paris"), ("b", "Berlin")]
    records = [Text(node, TextKind.LABEL, label, "en") for node, label in labels]
    graph = graph_from_records([*records, Triple("a", "near", "b")])
    without_facts = graph.with_triples(graph.triples[:0], note="no fact")
    for as_published in (False, True):
        encoder = AutoEncoder.from_host("kbert", tmp_path, graph, as_published=as_published)
        with_fact, without = (
            encoder.encode("the city of Berlin", kg=each).sentences
            for each in (graph, without_facts)
        )
        assert torch.equal(with_fact, without) == as_published
