"""Pairs of terms: where they come from, which partners are near, and steps in turn with texts."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from entity_linking.mentions import LinkedText
from kept.errors import ConfigError, NoKnowledgeError
from kept.graphs.builder import BuilderConfig
from kept.graphs.views import WORDS_ONLY, WordsView
from kept.objectives.lexical.relations import RELATED, VOCABULARY, LexicalOptions, cut
from kept.objectives.lexical.terms import (
    Lexicon,
    WordVectors,
    graph_pairs,
    of_terms,
    read_pairs,
    terms_of,
    with_neighbours,
)
from kept.objectives.model import KnowledgeForPreTraining
from kept.training.config import TrainConfig
from kept.training.log import read_log
from kept.training.loop import train
from kept.training.pretraining.assembly import assemble
from kept.training.pretraining.config import PretrainConfig
from kept.training.pretraining.data import WordGraphData
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from kg_loaders.errors import DamageError, SourceError
from tests.kept.tiny_hosts import FAMILIES, method_encoder
from tests.kept.training.tiny_pretraining import write_everything, write_host


def data(
    texts: list[LinkedText], graph: KnowledgeGraph, tokenizer: Any, **options: Any
) -> WordGraphData:
    return WordGraphData(
        texts, graph, tokenizer,
        builder=BuilderConfig(max_words=40, **WORDS_ONLY),
        view=WordsView(),
        objectives={"mlm": {}, "lexical": options},
    )  # fmt: skip


def test_names_of_one_entity_and_of_is_a_triples_are_pairs(small_graph: KnowledgeGraph) -> None:
    assert sorted(graph_pairs(small_graph)) == [
        ("city of light", "paris"), ("federal republic of germany", "germany"),
        ("france", "french republic"), ("french republic", "france"),
        ("germany", "federal republic of germany"), ("paris", "city of light"),
    ]  # fmt: skip
    named = graph_pairs(small_graph, ["P37"])
    assert {("france", "french"), ("french republic", "french"), ("germany", "german")} < {*named}
    with pytest.raises(ConfigError, match=r"no relation 'hypernym'; it has P1376"):
        graph_pairs(small_graph, ["hypernym"])
    names = [Text(n, TextKind.LABEL, n.title(), "en") for n in ("dog", "canine", "spitz")]
    graph = graph_from_records([Triple("dog", "hypernym", "canine"), *names])
    assert graph_pairs(graph) == [("dog", "canine")]


@pytest.mark.wordnet
def test_wordnet_has_its_synonyms_and_hypernyms(wordnet: KnowledgeGraph) -> None:
    lexicon = Lexicon(graph_pairs(wordnet))
    assert len(lexicon) > 500_000
    for one, other in (("car", "automobile"), ("dog", "canine"), ("paris", "national capital")):
        assert lexicon.joins(one, other), (one, other)
    assert not lexicon.joins("dog", "car")


def test_a_file_of_pairs_and_its_faults(tmp_path: Path) -> None:
    file = tmp_path / "pairs.txt"
    file.write_text("en_hot_dog en_Food\n\nred color\n", encoding="utf-8")
    assert read_pairs(file) == [("hot dog", "food"), ("red", "color")]
    file.write_text("red color hue\n", encoding="utf-8")
    with pytest.raises(DamageError, match=r"pairs.txt, line 1 .* not two terms"):
        read_pairs(file)
    with pytest.raises(SourceError, match="is not a file"):
        read_pairs(tmp_path / "nothing.txt")


def test_partners_are_the_nearest_that_a_loop_finds() -> None:
    draws = np.random.default_rng(0)
    names = [f"w{i}" for i in range(14)]
    for _ in range(30):
        chosen = draws.choice(14, (6, 2))
        pairs = [(names[a], names[b]) for a, b in chosen if a != b]
        lexicon, terms = Lexicon(pairs), terms_of(pairs)
        words = {name: draws.normal(size=3) for name in names[2:]}
        vectors = of_terms(terms, words)
        neighbours = with_neighbours(pairs, lexicon, vectors @ vectors.T)
        wanted = []
        for pair in pairs:
            wanted.append((*pair, True))
            for term in pair:
                others = [
                    t for t in terms
                    if t not in pair and t in words and term in words
                    and (t, term) not in pairs and (term, t) not in pairs
                ]  # fmt: skip
                if others:
                    vector = words[term] / np.linalg.norm(words[term])
                    near = [vector @ words[t] / np.linalg.norm(words[t]) for t in others]
                    wanted.append((term, others[int(np.argmax(near))], False))
        assert neighbours == wanted


def test_cuts_take_from_the_longer_term() -> None:
    assert [cut(5, 2, 6), cut(2, 5, 6), cut(3, 3, 5), cut(1, 1, 9)] == [
        (4, 2), (2, 4), (3, 2), (1, 1),
    ]  # fmt: skip


def test_faulty_options_are_named() -> None:
    with pytest.raises(ConfigError, match=r"n_pairs 0: 1 or more; every 0: 1 or more"):
        LexicalOptions(n_pairs=0, every=0)
    with pytest.raises(ConfigError, match="not both"):
        LexicalOptions(constraints="x", relations=("P1",))


def test_every_other_batch_is_of_pairs(
    linked: list[LinkedText], small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    data_ = data(linked, small_graph, tokenizer, every=3, n_pairs=4)
    assert data_.period == 3
    samples = [data_.sample(i, epoch=0, seed=0) for i in range(2)]
    for step in range(7):
        batch = data_.collate(samples, epoch=0, seed=0, step=step)
        is_pairs = step % 3 == 0
        assert (batch.extra_labels is not None) == is_pairs
        assert (batch.node_labels is None) == is_pairs
        if batch.extra_labels is not None:
            first = batch.extra_labels[VOCABULARY][:, 0, 0]
            assert int((first == RELATED).sum()) == 4
            assert len(batch) > 4
            assert set(batch.segment_ids.unique().tolist()) == {0, 1}
            again = pickle.loads(pickle.dumps(data_)).collate(samples, epoch=0, seed=0, step=step)
            assert torch.equal(batch.node_ids, again.node_ids)


def test_a_graph_without_pairs_is_refused(linked: list[LinkedText], tokenizer: Any) -> None:
    without_pairs = graph_from_records([Triple("Q90", "P17", "Q142")])
    with pytest.raises(NoKnowledgeError, match=r"objective lexical gets nothing .* aliases"):
        data(linked, without_pairs, tokenizer)


@pytest.mark.parametrize("family", FAMILIES)
def test_pairs_are_read_on_every_host(
    family: str, linked: list[LinkedText], small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    data_ = data(linked, small_graph, tokenizer)
    model = KnowledgeForPreTraining.of(
        method_encoder("libert", small_graph, tokenizer, family=family), {"lexical": {}}
    )
    samples = [data_.sample(0, epoch=0, seed=0)]
    loss = model(data_.collate(samples, epoch=0, seed=0, step=0)).losses["lexical"]
    loss.backward()
    assert loss.isfinite()
    assert any(p.grad is not None and p.grad.any() for p in model.encoder.parameters())


def test_vectors_come_from_a_file_or_a_host(tmp_path: Path) -> None:
    file = tmp_path / "vectors.txt"
    file.write_text("3 2\ncity 1 0\nOld 0 2\nother 1 1\n", encoding="utf-8")
    source = WordVectors(str(file), ["old city", "dog"])
    vectors = of_terms(
        ["old city", "city", "dog"], pickle.loads(pickle.dumps(source)).vectors_by_word
    )
    np.testing.assert_allclose(vectors[:2], [[0.4472136, 0.8944272], [1, 0]], atol=1e-6)
    assert np.isnan(vectors[2]).all()
    host = WordVectors(str(write_host(tmp_path / "host")), ["old capital"])
    assert set(host.vectors_by_word) == {"old", "capital"}


def test_a_run_alternates_and_weights_are_checked_over_all_tasks(
    tmp_path: Path, small_graph: KnowledgeGraph
) -> None:
    fields = write_everything(tmp_path, small_graph) | {"method": "libert"}
    fields["training"]["objective_weights"] = {"mlm": 2.0, "lexical": 0.5}
    config = PretrainConfig.read(None, fields)
    model, texts = assemble(config)
    train(model, texts, config.training, tmp_path / "run")
    rows = [row for row in read_log(tmp_path / "run/log.jsonl") if row["kind"] == "step"]
    assert [list(row["losses"]) for row in rows] == [["lexical"], ["mlm"]] * 4
    fields["training"]["objective_weights"] = {"nonsense": 2.0}
    wrong = TrainConfig(**fields["training"])
    with pytest.raises(ConfigError, match=r"names \['nonsense'\].*\['lexical', 'mlm'\]"):
        train(model, texts, wrong, tmp_path / "wrong")
