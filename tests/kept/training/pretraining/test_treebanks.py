"""Trees as training data: where labels stand, what is left out, and that an adapter learns them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from entity_linking.mentions import LinkedText
from kept.batches import IGNORE, KnowledgeBatch
from kept.encoders.kadapter import KAdapter
from kept.errors import BatchError, ConfigError
from kept.graphs.builder import BuilderConfig
from kept.graphs.views import LinkedWordsView
from kept.objectives.model import KnowledgeForPreTraining
from kept.tasks.datasets.conllu import Sentence, Word, read_conllu
from kept.training.config import TrainConfig
from kept.training.log import read_log
from kept.training.loop import train
from kept.training.pretraining.data import WordGraphData
from kept.training.pretraining.treebanks import DependencyData
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_hosts import tiny_host


def sentence(text: str, heads: list[int]) -> Sentence:
    words, start = [], 0
    for form, head in zip(text.split(), heads, strict=True):
        start = text.index(form, start)
        words.append(Word(form, start, start + len(form), head, "_", "_"))
        start += len(form)
    return Sentence(text, tuple(words))


SENTENCES = [
    sentence("the river flows through the city", [2, 3, 0, 6, 6, 3]),
    sentence("old dog", [2, 0]),
    sentence("the cat of old", [2, 0, 2, 3]),
]


def losses_of(folder: Path) -> list[float]:
    rows = read_log(folder / "log.jsonl")
    return [row["losses"]["dependency_heads"] for row in rows if "losses" in row]


def data_of(tokenizer: Any, **options: Any) -> DependencyData:
    return DependencyData(SENTENCES, tokenizer, **options)


def model_on(graph: KnowledgeGraph, **options: Any) -> KnowledgeForPreTraining:
    torch.manual_seed(0)
    encoder = KAdapter.from_host(
        tiny_host(n_words=120, n_positions=160), graph, adapters={"linguistic": {}}
    )
    return KnowledgeForPreTraining.of(encoder, {"dependency_heads": options})


def test_labels_stand_at_first_pieces(tokenizer: Any) -> None:
    """Against the pieces of each word alone."""
    data = data_of(tokenizer)
    assert data.left_out == []
    n_labels = 0
    for i, sentence in enumerate(SENTENCES):
        sample = data.sample(i, epoch=0, seed=0)
        lengths = [
            len(tokenizer(word.form, add_special_tokens=False)["input_ids"])
            for word in sentence.words
        ]
        first = 1 + np.concatenate([[0], np.cumsum(lengths)])
        expected = [IGNORE] * sample.node_ids.shape[1]
        for n, word in enumerate(sentence.words):
            expected[first[n]] = 1 + (0 if word.head == 0 else int(first[word.head - 1]))
        assert sample.node_labels[0].tolist() == expected
        n_labels += len(lengths)
        assert data.n_nodes(i) == sample.node_ids.shape[1]
    assert n_labels == 12


def test_words_that_share_pieces(tokenizer: Any) -> None:
    """Both words of "au" cover it: the first has the piece, the second has none, nor a label."""
    both = Sentence("au", (Word("à", 0, 2, 0, "_", "_"), Word("le", 0, 2, 1, "_", "_")))
    labels = DependencyData([both], tokenizer).sample(0, epoch=0, seed=0).node_labels[0].tolist()
    assert labels[1] == 1
    assert set(labels[:1] + labels[2:]) == {IGNORE}


def test_long_sentences_are_left_out_and_counted(tokenizer: Any) -> None:
    lengths = [data_of(tokenizer).n_nodes(i) for i in range(3)]
    longest = max(lengths)
    assert data_of(tokenizer, max_words=longest).left_out == []
    shorter = data_of(tokenizer, max_words=longest - 1)
    assert shorter.left_out == [i for i, n in enumerate(lengths) if n == longest]
    assert f"{len(shorter.left_out)} left out" in repr(shorter)
    with pytest.raises(ConfigError, match="none of 3 sentences fits"):
        data_of(tokenizer, max_words=3)
    with pytest.raises(ConfigError, match="placement"):
        data_of(tokenizer, placement="random")


def test_fingerprints_differ_when_samples_do(tokenizer: Any) -> None:
    one = data_of(tokenizer).fingerprint
    assert one == data_of(tokenizer).fingerprint
    assert one != data_of(tokenizer, placement="released").fingerprint
    other = DependencyData([*SENTENCES[:2], sentence("the cat of old", [2, 0, 4, 2])], tokenizer)
    assert one != other.fingerprint


def test_the_adapter_learns_heads_in_the_loop(
    small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path
) -> None:
    model = model_on(small_graph, dropout=0.0)
    assert model.encoder.config.adapters["linguistic"]["graph_hash"] == ""  # no graph took part
    config = TrainConfig(steps=60, batch_size=3, learning_rate=1e-2, log_every=1)
    before = {k: v.clone() for k, v in model.encoder.host.state_dict().items()}
    train(model, data_of(tokenizer), config, tmp_path)
    losses = losses_of(tmp_path)
    assert losses[-1] < 0.3 * losses[0]
    for name, value in before.items():
        assert torch.equal(model.encoder.host.state_dict()[name], value), name
    again = KnowledgeForPreTraining.from_pretrained(tmp_path).eval()
    samples = [data_of(tokenizer).sample(i, epoch=0, seed=0) for i in range(3)]
    batch = KnowledgeBatch.stack(samples)
    assert torch.equal(
        again(batch).losses["dependency_heads"], model(batch).losses["dependency_heads"]
    )
    objective = model.objectives["dependency_heads"]
    scores = objective.scores(objective.features(model.encoder(batch)), batch.node_mask)
    torch.testing.assert_close(scores.attention.sum(-1), torch.ones(3, 1, batch.node_ids.shape[1]))
    assert not scores.attention[1, 0, :, ~batch.node_mask[1]].any()


def test_padding_changes_no_loss(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    model = model_on(small_graph).eval()
    samples = [data_of(tokenizer).sample(i, epoch=0, seed=0) for i in range(3)]
    batch = data_of(tokenizer).collate(samples, epoch=0, seed=0, step=0)
    plain = model(batch).losses["dependency_heads"]
    longer = model(batch.pad_to(40)).losses["dependency_heads"]
    torch.testing.assert_close(plain, longer)


def test_what_it_cannot_learn_from_is_refused(
    small_graph: KnowledgeGraph, tokenizer: Any, linked: list[LinkedText]
) -> None:
    model = model_on(small_graph, n_positions=5)
    sample = data_of(tokenizer).sample(0, epoch=0, seed=0)
    with pytest.raises(BatchError, match="the objective has 5"):
        model(sample)
    with pytest.raises(ConfigError, match="learns from trees"):
        WordGraphData(
            linked,
            small_graph,
            tokenizer,
            builder=BuilderConfig(),
            view=LinkedWordsView(),
            objectives={"dependency_heads": {}},
        )


@pytest.mark.data
def test_english_web_treebank_trains(
    data_root: Path, small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path
) -> None:
    path = data_root / "linguistic/ud_english_ewt/en_ewt-ud-dev.conllu.gz"
    data = DependencyData(list(read_conllu(path))[:300], tokenizer, max_words=128)
    assert len(data) > 200
    config = TrainConfig(steps=40, batch_size=16, learning_rate=1e-2, log_every=1)
    train(model_on(small_graph), data, config, tmp_path)
    assert np.mean(losses_of(tmp_path)[-5:]) < np.log(128) - 0.3  # chance: log(128)
