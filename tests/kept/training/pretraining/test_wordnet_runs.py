"""The real WordNet as one more graph: of a third adapter, and of KnowBERT's second KAR."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file
from typer.testing import CliRunner, Result

from entity_linking.mentions import LinkedText
from entity_linking.senses.wordnet import WordNetCandidates
from kept.apps.cli import app
from kept.auto import AutoEncoder
from kept.batches import IGNORE, KnowledgeBatch
from kept.encoders.kadapter import KAdapter
from kept.graphs.builder import BuilderConfig
from kept.graphs.views import WORDS_ONLY, LinkedWordsView
from kept.hosts import load_host
from kept.kge import vectors
from kept.objectives.model import KnowledgeForPreTraining
from kept.training.config import TrainConfig
from kept.training.log import read_log
from kept.training.loop import train
from kept.training.pretraining.data import WordGraphData
from kg_loaders import KnowledgeGraph
from kg_loaders.formats.wordnet_lexicon import Lexicon
from tests.kept.training.tiny_pretraining import linked_texts, tokenizer, write_host, write_texts

pytestmark = pytest.mark.wordnet

SENTENCES = [
    "the dog is a canine and the puppy is a dog",
    "the people in the city speak of an old river",
    "a finger lies on a hand, the hand is near an arm",
    "Paris is the capital of France in Europe",
    "the cat is a feline and not a vehicle",
    "a tree has a trunk and the forest has trees",
]
PAGE = Path(__file__).parents[4] / "docs/reference/methods/knowbert.md"
OTHERS = ("factual", "linguistic")


def kept(*flags: object) -> Result:
    return CliRunner().invoke(app, [*map(str, flags)])


@pytest.fixture(scope="module")
def folder(wordnet: KnowledgeGraph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The graph as its documentation builds it, in `wordnet`."""
    folder_ = tmp_path_factory.mktemp("runs")
    wordnet.save(folder_ / "wordnet")
    return folder_


@pytest.fixture(scope="module")
def texts(wordnet: KnowledgeGraph, wordnet_files: Path) -> list[LinkedText]:
    return WordNetCandidates(wordnet, Lexicon.open(wordnet_files)).link(SENTENCES)


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
    labels_asked = {wordnet.relations.name(label) for label in labels if label != IGNORE}
    assert labels_asked & {
        "hypernym",
        "hyponym",
        "instance_hypernym",
        "part_holonym",
        "part_meronym",
    }
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


@pytest.mark.slow
def test_the_two_stages_of_the_page_on_two_graphs(
    folder: Path,
    wordnet: KnowledgeGraph,
    small_graph: KnowledgeGraph,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The page's files as they stand, but for the host, the sizes and the length."""
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    linker, everything = map(yaml.safe_load, blocks)
    monkeypatch.chdir(folder)
    few_steps = dataclasses.replace(vectors.RECIPE, batch_size=2**16)
    monkeypatch.setattr(vectors, "RECIPE", few_steps)
    small_graph.save(folder / "kg")
    write_texts(linked_texts(small_graph, times=1), folder / "linked.jsonl")
    host = {"host": str(write_host(folder / "host"))}
    sizes = {"width": 8, "n_heads": 2, "feed_forward": 12, "scorer_width": 6}
    for kar in linker["options"]["kars"]:
        kar |= sizes | ({"vector_width": 8, "part_width": 4} if "kg" in kar else {})
    linker["options"]["vector_epochs"] = 1
    for stage, name in ((linker, "linker"), (everything, "all")):
        training = {"steps": 2, "batch_size": 4, "threads": 1, "device": "cpu", "log_every": 1}
        stage |= host | {"training": stage["training"] | training}
        (folder / f"{name}.yaml").write_text(
            yaml.safe_dump(stage, sort_keys=False), encoding="utf-8"
        )
    for config, run in (("linker.yaml", "runs/linker"), ("all.yaml", "runs/knowbert")):
        result = kept("pretrain", "-c", config, "-o", run)
        assert result.exit_code == 0, result.output
    losses = read_log(folder / "runs/linker/log.jsonl")[-1]["losses"]
    assert list(losses) == ["el_wiki", "el_wordnet"]
    losses = read_log(folder / "runs/knowbert/log.jsonl")[-1]["losses"]
    assert list(losses) == ["mlm", "el_wiki", "el_wordnet"]
    assert losses["el_wordnet"] > 0

    folders = (folder / "runs" / name for name in ("linker", "knowbert"))
    first, second = (load_file(run / "model.safetensors") for run in folders)
    before = load_file(folder / "host/model.safetensors")
    assert all(first[f"encoder.host.{name}"].equal(value) for name, value in before.items())
    moved = {name for name in first.keys() & second.keys() if not first[name].equal(second[name])}
    for part in ("host.encoder", "linkers.wordnet.scorer", "recontextualisations.wordnet"):
        assert any(name.startswith(f"encoder.{part}") for name in moved), part
    assert "encoder.linkers.wordnet.entities.vectors.weight" not in moved
    rows = first["encoder.linkers.wordnet.entities.vectors.weight"].shape[0]
    assert rows == wordnet.n_entities + 3
    encoded = AutoEncoder.from_pretrained(folder / "runs/knowbert").encode(
        ["Paris is near the old river"], kg=folder / "kg"
    )
    assert encoded.sentences.isfinite().all()
