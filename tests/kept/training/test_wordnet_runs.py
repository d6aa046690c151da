"""The real WordNet as one more graph: a third adapter learns from it beside two that stay."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tiny_pretraining import tokenizer, write_host

from entity_linking.mentions import LinkedText
from entity_linking.wordnet import WordNetCandidates
from kept.batches import IGNORE, KnowledgeBatch
from kept.encoders.kadapter import KAdapter
from kept.graphs.builder import BuilderConfig
from kept.graphs.views import WORDS_ONLY, LinkedWordsView
from kept.hosts import load_host
from kept.objectives.model import KnowledgeForPreTraining
from kept.training.config import TrainConfig
from kept.training.loop import train
from kept.training.wordgraphs import WordGraphData
from kg_loaders import KnowledgeGraph, graph_from_records
from kg_loaders.damage import DamageReport
from kg_loaders.errors import SourceError
from kg_loaders.wordnet import find_wordnet, read
from kg_loaders.wordnet_lexicon import Lexicon

pytestmark = pytest.mark.wordnet

SENTENCES = [
    "the dog is a canine and the puppy is a dog",
    "the people in the city speak of an old river",
    "a finger lies on a hand, the hand is near an arm",
    "Paris is the capital of France in Europe",
    "the cat is a feline and not a vehicle",
    "a tree has a trunk and the forest has trees",
]
OTHERS = ("factual", "linguistic")


@pytest.fixture(scope="module")
def files() -> Path:
    try:
        return find_wordnet()
    except SourceError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def wordnet(files: Path) -> KnowledgeGraph:
    return graph_from_records(read(files, DamageReport(), lexical="synsets"))


@pytest.fixture(scope="module")
def texts(wordnet: KnowledgeGraph, files: Path) -> list[LinkedText]:
    return WordNetCandidates(wordnet, Lexicon.open(files)).link(SENTENCES)


def test_an_adapter_of_wordnet_changes_nothing_of_the_other_two(
    wordnet: KnowledgeGraph, texts: list[LinkedText], small_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    host, words = load_host(write_host(tmp_path / "host")), tokenizer()
    torch.manual_seed(0)
    first = KAdapter.from_host(host, small_graph, adapters={name: {} for name in OTHERS})
    first.save_trained_parts(tmp_path)
    saved = {name: tmp_path / "adapters" / name for name in OTHERS}

    task = {"relation_pairs": {}}
    encoder = KAdapter.for_graph(
        host, wordnet, words, seed=0, adapters_from=list(saved.values()), any_graph=True,
        adapters={"wordnet": {}},
    ).eval()  # fmt: skip
    data = WordGraphData(
        texts,
        wordnet,
        words,
        builder=BuilderConfig(**WORDS_ONLY),
        view=LinkedWordsView(),
        objectives=task,
    )
    samples = [data.sample(i, epoch=0, seed=0) for i in range(len(data))]
    labels = [int(sample.labels[0]) for sample in samples if sample.labels is not None]
    asked = {wordnet.relations.name(label) for label in labels if label != IGNORE}
    assert asked & {"hypernym", "hyponym", "instance_hypernym", "part_holonym", "part_meronym"}
    batch = KnowledgeBatch.stack(samples, word_pad_id=0)
    with torch.no_grad():
        before = encoder(batch).adapter_states
    training = TrainConfig(steps=12, batch_size=6, learning_rate=0.01, log_every=1)
    result = train(KnowledgeForPreTraining.of(encoder, task), data, training, tmp_path / "run")
    assert result.first is not None
    assert result.last is not None
    assert result.last.total_loss < result.first.total_loss

    with torch.no_grad():
        after = encoder.eval()(batch).adapter_states
    for name in OTHERS:
        assert torch.equal(after[name], before[name]), name
        encoder.save_adapter(tmp_path / "again", name)
        for file in ("adapter.safetensors", "adapter.json"):
            assert (tmp_path / "again" / file).read_bytes() == (saved[name] / file).read_bytes()
    assert not torch.equal(after["wordnet"], before["wordnet"])
    encoder.save_trained_parts(tmp_path / "third")
    assert [folder.name for folder in (tmp_path / "third/adapters").iterdir()] == ["wordnet"]
    header = json.loads((tmp_path / "third/adapters/wordnet/adapter.json").read_text())
    assert header["options"]["graph_hash"] == wordnet.content_hash
    assert header["options"]["trained_on"] == "relation_pairs"
