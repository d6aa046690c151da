"""Runs of every method under the probe: with their graph and without, facts hidden and shown."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModel

from entity_linking.mentions import LinkedText, Mention
from kept import hosts
from kept.encoders.ernie import ERNIE
from kept.encoders.plain import Plain
from kept.errors import ConfigError, EvaluationError, HostError
from kept.graphs.builder import BuilderConfig
from kept.heads.model import KnowledgeForTask
from kept.lab.probing.engine import probe
from kept.lab.probing.items.graph_items import graph_questions
from kept.lab.probing.items.holes import filled
from kept.lab.probing.items.item import HOLE, ClozeItem
from kept.lab.probing.items.templates import Template
from kept.lab.probing.models.base import Question
from kept.lab.probing.opening import open_model
from kept.lab.probing.results import ProbeResult
from kept.methods import METHODS
from kept.objectives.model import KnowledgeForPreTraining
from kg_loaders import KnowledgeGraph, Triple, graph_from_records
from kg_loaders.errors import GraphMismatchError
from tests.kept.tiny_hosts import method_encoder, tiny_host

SUBGRAPH = ("qagnn", "greaselm")
READS = {name for name, line in METHODS.items() if line.view.reads_graph}
TEMPLATES = {"P17": [Template("P17", "the old [X] of [Y] .")]}


@pytest.fixture(scope="module", params=METHODS)
def method(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def saved(method: str, folder: Path, graph: KnowledgeGraph, tokenizer: Any) -> Path:
    """An untrained run with a head over words whose bias tells words apart."""
    encoder = method_encoder(method, graph, tokenizer)
    if method == "ernie":  # of two layers the first must fuse, or the mask never meets an entity
        host = tiny_host(n_words=len(tokenizer), n_positions=128)
        encoder = ERNIE.from_host(host, graph, entity_width=8, layer_types=["mix", "norm"])
    objectives_of_method = METHODS[method].objectives
    objectives = objectives_of_method if "masked_nodes" in objectives_of_method else {"mlm": {}}
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model = KnowledgeForPreTraining.of(encoder, objectives)
        for name, parameter in model.objectives.named_parameters():
            if name.endswith("bias"):
                parameter.data.normal_()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    settings = {"graph": dataclasses.asdict(BuilderConfig(max_neighbours=9, drop_probability=0.9))}
    (folder / "pretrain.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def folder(
    method: str,
    tmp_path_factory: pytest.TempPathFactory,
    small_graph: KnowledgeGraph,
    tokenizer: Any,
) -> Path:
    return saved(method, tmp_path_factory.mktemp(method), small_graph, tokenizer)


@pytest.fixture(scope="module")
def items(small_graph: KnowledgeGraph) -> list[ClozeItem]:
    return graph_questions(
        small_graph, ["P17", "P36", "P206"], TEMPLATES, max_items=2, seed=0
    ).items


def probed(model: Any, items: list[ClozeItem], **sizes: int) -> ProbeResult:
    objects = {name: ["france", "germany", "paris", "berlin", "seine", "a"] for name in
               ("P17", "P36", "P206")}  # fmt: skip
    items = [dataclasses.replace(item, answer=item.answer.lower()) for item in items]
    return probe(model, items, vocabulary=["a", "old", "river"], objects=objects, **sizes)


def scores(result: ProbeResult) -> list[float]:
    return [rank.score for _, rank in result.scored("objects")]


def test_every_method_answers_from_its_weights(
    method: str, folder: Path, items: list[ClozeItem], small_graph: KnowledgeGraph
) -> None:
    alone = probed(open_model(folder), items)
    assert (alone.mode, alone.asked_facts, alone.method) == ("weights", "none", method)
    assert len(scores(alone)) == len(items)
    assert not any(answer.asked_shown for answer in alone.answers)
    with_graph = probed(open_model(folder, "weights", small_graph), items)
    assert scores(with_graph) == pytest.approx(scores(alone), abs=1e-6)
    unlinked = [
        dataclasses.replace(item, linked=dataclasses.replace(item.linked, links=()), fact=None)
        for item in items
    ]
    assert scores(probed(open_model(folder), unlinked)) == pytest.approx(scores(alone), abs=1e-6)
    single = probed(open_model(folder), items[:3], batch_size=1, chunk_size=2)
    for one, other in zip(alone.answers[:3], single.answers, strict=True):
        assert one.objects is not None
        assert other.objects is not None
        assert one.objects.score == pytest.approx(other.objects.score, abs=1e-4)


def test_methods_that_read_a_graph_answer_from_it(
    method: str, folder: Path, items: list[ClozeItem], small_graph: KnowledgeGraph
) -> None:
    if method not in READS:
        with pytest.raises(ConfigError, match="reads no graph"):
            open_model(folder, "graph", small_graph)
        return
    hidden = probed(open_model(folder, "graph", small_graph), items)
    assert (hidden.mode, hidden.asked_facts) == ("graph", "hidden")
    alone = probed(open_model(folder), items)
    assert scores(hidden) != pytest.approx(scores(alone), abs=1e-6)
    assert not any(answer.asked_shown for answer in hidden.answers)
    single = probed(open_model(folder, "graph", small_graph), items[:3], batch_size=1, chunk_size=2)
    assert scores(single) == pytest.approx(scores(hidden)[:3], abs=1e-4)
    with_facts = probed(open_model(folder, "graph", small_graph, show_asked=True), items)
    sees_facts = METHODS[method].shows_facts
    assert [answer.asked_shown for answer in with_facts.answers] == [sees_facts] * len(items)
    # edges of a subgraph are between linked entities and what these share; the answer is neither
    assert (scores(with_facts) != scores(hidden)) == (sees_facts and method not in SUBGRAPH)
    with pytest.raises(ConfigError, match="needs kg"):
        open_model(folder, "graph")
    other = small_graph.with_triples(small_graph.triples[:3], note="fewer")
    assert open_model(folder, "graph", other).mode == "graph"
    elsewhere = graph_from_records([Triple("a", "r", "b")])
    if not METHODS[method].encoder.holds_rows:
        assert open_model(folder, "graph", elsewhere).mode == "graph"
        return
    with pytest.raises(GraphMismatchError):
        open_model(folder, "graph", elsewhere)


def test_a_hidden_fact_is_not_in_the_branches_of_kbert(
    tmp_path: Path, small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    folder = saved("kbert", tmp_path, small_graph, tokenizer)
    facts = graph_questions(small_graph, ["P17"], TEMPLATES, max_items=None, seed=0).items
    item = next(one for one in facts if one.fact == ("Q1471", "P17", "Q142"))
    question = Question(filled(item, "[MASK]"), item.id, item.fact)
    read = {}
    for show in (False, True):
        (sample,) = open_model(folder, "graph", small_graph, show_asked=show).samples([question])
        read[show] = tokenizer.decode(sample.ids).replace(" ", "").replace("##", "")
    assert "countryfranc" not in read[False]
    assert "countryfranc" in read[True]


def test_heads_that_cannot_answer_are_refused(
    tmp_path: Path, small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    encoder = method_encoder("kadapter", small_graph, tokenizer)
    encoder.save_pretrained(tmp_path / "bare")
    KnowledgeForTask.of(encoder, "pooled", ["a", "b"]).save_pretrained(tmp_path / "task")
    objectives = METHODS["kadapter"].objectives
    KnowledgeForPreTraining.of(encoder, objectives).save_pretrained(tmp_path / "other")
    tiny_host(n_words=len(tokenizer)).save_pretrained(tmp_path / "host")
    for name in ("bare", "task", "other", "host"):
        tokenizer.save_pretrained(tmp_path / name)
        with pytest.raises(HostError, match="--method none --objective mlm"):
            open_model(tmp_path / name)
    with pytest.raises(ConfigError, match="plain masked LM"):
        open_model(tmp_path / "host", "graph", small_graph)
    with pytest.raises(ConfigError, match="show_asked belongs to mode graph"):
        open_model(tmp_path / "host", show_asked=True)


@pytest.mark.parametrize("family", ["starcoder2", "cohere", "t5"])
def test_a_model_that_cannot_be_probed_is_named_by_its_type(
    family: str, tmp_path: Path, tokenizer: Any
) -> None:
    """Nothing is said of pickles or of files that are not whole: the kind of the model is wrong."""
    sizes = {
        "cohere": ("hidden_size", "intermediate_size", "head_dim"),
        "t5": ("d_model", "d_ff", "d_kv"),
    }
    names = sizes.get(family, sizes["cohere"])
    options: dict[str, Any] = dict(zip(names, (16, 32, 8), strict=True))
    options |= {"num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": len(tokenizer)}
    config = AutoConfig.for_model(family, num_hidden_layers=1, num_layers=1, **options)
    AutoModel.from_config(config).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    with pytest.raises(HostError) as refused:
        open_model(tmp_path / "model")
    assert f"has model type {family!r}, which is not a masked LM" in str(refused.value)
    assert "llama" in str(refused.value)
    assert "pickle" not in str(refused.value)


def test_links_move_with_the_hole(small_graph: KnowledgeGraph) -> None:
    template = Template("P17", "in [Y] is [X]")
    linked, hole = template.fill("Paris", "Q90", "1")
    item = ClozeItem("1", "P17", linked, hole, "Paris", "France")
    question = filled(item, "[MASK] [MASK]")
    mention = question.links[0].mention
    assert question.text[mention.start : mention.end] == "Paris"
    pair = dataclasses.replace(linked, pair_start=linked.text.index("is"))
    moved = filled(dataclasses.replace(item, linked=pair), "x")
    assert moved.text[moved.pair_start :] == "is Paris"
    inside = LinkedText(linked.text, (dataclasses.replace(linked.links[0], mention=Mention(4, 5)),))
    with pytest.raises(EvaluationError, match="reaches into the hole"):
        filled(dataclasses.replace(item, linked=inside), "x")
    assert HOLE in linked.text


@pytest.mark.minilm
def test_minilm_is_refused_bare_and_probed_with_a_head(
    tmp_path: Path, small_graph: KnowledgeGraph
) -> None:
    with pytest.raises(HostError, match="no trained head"):
        open_model("minilm")
    encoder = Plain.from_host(hosts.load_host("minilm"), small_graph)
    KnowledgeForPreTraining.of(encoder, {"mlm": {}}).save_pretrained(tmp_path)
    hosts.load_tokenizer("minilm").save_pretrained(tmp_path)
    questions = graph_questions(small_graph, None, TEMPLATES, max_items=None, seed=0)
    result = probe(
        open_model(tmp_path), questions.items, vocabulary=None, objects=questions.objects
    )
    assert len(result.scored("objects")) == len(questions.items) == 15
