"""The pre-training experiment: its configuration, its data, two steps by hand, and going on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from entity_linking.annotations import gold_link
from entity_linking.annotations.relations import RelationExample
from entity_linking.mentions import LinkedText
from experiments.pretraining.data import Corpus, link_documents, read_corpus
from experiments.pretraining.trial import (
    SPENT,
    Ledger,
    PretrainingStudy,
    n_sentences,
    run_method,
    to_markdown,
)
from kept.auto import AutoEncoder
from kept.methods import METHODS
from kept.training.checkpoint import list_checkpoints
from kept.training.config import TrainConfig
from kept.training.log import read_log
from kg_loaders import KnowledgeGraph
from tests.kept.training.tiny_pretraining import linked_texts, write_host

PLAN = Path(__file__).parents[2] / "experiments" / "pretraining" / "trex.yaml"
LAYERS = Path(__file__).parents[2] / "experiments" / "layers" / "trex.yaml"
LATER = {name for name, line in METHODS.items() if line.since != "0.1"}
"""Methods that were added after this study was planned."""


@pytest.fixture
def corpus(small_graph: KnowledgeGraph) -> Corpus:
    texts = [text for text in linked_texts(small_graph, 6) if text.links[0].entity]
    pairs = [tuple(texts[i : i + 2]) for i in range(0, len(texts), 2)]
    return Corpus(small_graph, tuple(pairs))


@pytest.fixture
def study(tmp_path: Path) -> PretrainingStudy:
    """The committed one with a tiny host and two steps."""
    committed = yaml.safe_load(PLAN.read_text())
    steps = {
        "steps": 2, "batch_size": 4, "device": "cpu", "log_every": 1, "learning_rate": 1e-2,
        "warmup_steps": 0,
    }  # fmt: skip
    small = {
        "host": str(write_host(tmp_path / "host")),
        "cpu_minutes": 5,
        "n_held_out": 6,
        "builder": committed["builder"] | {"max_neighbours": 2, "max_words": 30, "max_nodes": 60},
        "training": committed["training"] | steps,
    }
    return PretrainingStudy.model_validate(committed | small)


def test_the_committed_configuration_loads() -> None:
    study = PretrainingStudy.model_validate(yaml.safe_load(PLAN.read_text()))
    assert study.cpu_minutes == 20
    assert study.names == [name for name in METHODS if name not in ("none", *LATER)]
    for name in study.names:
        config = study.training_of(name, 1.5)
        assert (config.budget_cpu_minutes, config.threads, config.seed) == (1.5, 1, study.seed)


def test_runs_for_layers_open_by_themselves(
    study: PretrainingStudy, corpus: Corpus, tmp_path: Path
) -> None:
    """The plan for layers is the other one with fewer methods and minutes."""
    plan, whole = (
        PretrainingStudy.model_validate(yaml.safe_load(p.read_text())) for p in (LAYERS, PLAN)
    )
    same = {"methods": whole.methods, "cpu_minutes": whole.cpu_minutes}
    assert plan.model_copy(update=same) == whole
    for name in plan.names:
        run_method(name, study, corpus, tmp_path / name)
        encoder = AutoEncoder.from_pretrained(tmp_path / name)
        (text,) = encoder.encode(["the old city"], corpus.graph, layers=True)
        assert text.layers is not None
        assert len(text.layers) == 1 + encoder.encoder.host.config.num_hidden_layers


@pytest.mark.parametrize("name", METHODS)
def test_two_steps_and_a_table(
    name: str, study: PretrainingStudy, corpus: Corpus, tmp_path: Path
) -> None:
    record = run_method(name, study, corpus, tmp_path / name)
    assert (record["steps"], record["sentences"], record["stopped"]) == (2, 8, "finished")
    assert record["losses_before"].keys() == record["losses_after"].keys()
    moved = [abs(v - record["losses_after"][k]) > 1e-6 for k, v in record["losses_before"].items()]
    assert any(moved)
    counts = record["parameters"]
    assert counts["added by the objectives"] > 0
    assert 0 < counts["trained"] <= sum(counts.values()) - counts["trained"]
    assert record["memory_mib"]["peak"] >= record["memory_mib"]["before training"] > 10
    assert 0 < record["cpu_minutes"] < 5
    assert json.loads((tmp_path / name / "result.json").read_text()) == record
    assert run_method(name, study, corpus, tmp_path / name) == record
    table = to_markdown([record], study)
    assert f"| {name} | 2 | 8 |" in table
    assert all(f"| {name} | {loss} |" in table for loss in record["losses_before"])


def test_a_spent_budget_ends_a_run_and_a_cut_one_goes_on(
    study: PretrainingStudy, corpus: Corpus, tmp_path: Path
) -> None:
    changes = {"training": study.training.model_copy(update={"steps": 1000}), "cpu_minutes": 1e-9}
    short = study.model_copy(update=changes)
    record = run_method("colake", short, corpus, tmp_path / "run")
    assert (record["steps"], record["stopped"]) == (1, "budget")
    (tmp_path / "run/result.json").unlink()
    spent = json.loads((tmp_path / "run" / SPENT).read_text())["cpu_seconds"]
    longer = short.model_copy(update={"cpu_minutes": spent / 60 + 0.02})
    again = run_method("colake", longer, corpus, tmp_path / "run")
    assert again["steps"] > 1
    assert again["cpu_minutes"] >= longer.cpu_minutes
    assert again["losses_before"] == record["losses_before"]
    assert len(list_checkpoints(tmp_path / "run/checkpoints")) > 0
    steps = [row["step"] for row in read_log(tmp_path / "run/log.jsonl") if row["kind"] == "step"]
    assert steps == list(range(1, again["steps"] + 1))


def test_the_ledger_adds_up_over_processes(tmp_path: Path) -> None:
    (tmp_path / "spent.json").write_text('{"cpu_seconds": 100.0, "peak_memory_mib": 1e6}')
    ledger = Ledger(tmp_path / "spent.json")
    ledger.start()
    assert 100 <= ledger.cpu_seconds < 110
    ledger.write()
    again = Ledger(tmp_path / "spent.json")
    assert again.cpu_seconds_before >= 100
    assert again.peak_memory_mib == 1e6


def test_sentences_are_counted_over_epochs(study: PretrainingStudy, corpus: Corpus) -> None:
    chosen = METHODS["colake"]
    data = corpus.data(chosen, study.host, study.builder, chosen.objectives)
    config = TrainConfig(steps=1, batch_size=5)
    n = len(data)
    assert n % 5
    n_batches = -(-n // 5)
    assert n_sentences(data, config, n_batches) == n
    assert n_sentences(data, config, 2 * n_batches + 3) == 2 * n + 15
    assert n_sentences(data, config, n_batches - 1) == n - n % 5


def test_documents_are_split_whole(corpus: Corpus) -> None:
    training, held_out = corpus.split(6, seed=0)
    assert sum(map(len, held_out.documents)) == 6
    assert len(training.documents) + len(held_out.documents) == len(corpus.documents)
    assert corpus.split(6, seed=0)[1].documents == held_out.documents
    assert corpus.split(6, seed=1)[1].documents != held_out.documents


def test_annotated_mentions_keep_their_entity_and_get_candidates(
    small_graph: KnowledgeGraph,
) -> None:
    def example(text: str, head: str, tail: str, *names: str) -> RelationExample:
        spans = [(text.index(name), text.index(name) + len(name)) for name in names]
        links = [gold_link(*s, e) for s, e in zip(spans, (head, tail), strict=True)]
        linked = LinkedText(text, tuple(sorted(links, key=lambda k: k.mention)))
        mentions = [k.mention for k in links]
        return RelationExample(linked, head, "P1", tail, *mentions)

    texts = ["Paris in Texas is far from Berlin and France.", "Nobody knows Nemo of Nowhere."]
    examples = [
        example(texts[0], "Q830149", "Q-texas", "Paris", "Texas"),
        example(texts[0], "Q830149", "Q64", "Paris", "Berlin"),
        example(texts[1], "Q830149", "Q-nowhere", "Nemo", "Nowhere"),
        example("Nemo lives Nowhere.", "Q-nemo", "Q-nowhere", "Nemo", "Nowhere"),
    ]
    documents = link_documents(examples, small_graph)
    assert [[t.text for t in d] for d in documents] == [texts]
    actual = {texts[0][k.mention.start : k.mention.end]: k for k in documents[0][0].links}
    assert {name: k.entity for name, k in actual.items()} == {
        "Paris": "Q830149", "Texas": "Q-texas", "Berlin": "Q64", "France": "Q142",
    }  # fmt: skip
    assert {c.entity for c in actual["Paris"].candidates} == {"Q90", "Q830149"}
    assert actual["Texas"].candidates == ()


@pytest.mark.data
@pytest.mark.slow
def test_real_sentences_are_linked(data_root: Path) -> None:
    corpus = read_corpus(data_root, "P103.jsonl.gz")
    assert (corpus.graph.n_entities, corpus.graph.n_relations) == (2034, 42)
    assert len(corpus.graph.triples) == 32_888
    texts = [text for document in corpus.documents for text in document]
    assert len(texts) > 1000
    links = [link for text in texts for link in text.links]
    assert sum(len(link.candidates) > 1 for link in links) > 100
