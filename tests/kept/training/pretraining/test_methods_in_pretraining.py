"""CoLAKE hides the facts of half of its anchors while it pre-trains, and of none in a task."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kept.graphs.builder import BuilderConfig, join_words
from kept.graphs.graph import NodeKind
from kept.inputs.views import builder_for
from kept.methods import METHODS, method
from kept.randomness import generator
from kept.training.pretraining.assembly import assemble
from kept.training.pretraining.config import PretrainConfig
from kept.training.pretraining.data import WordGraphData
from kg_loaders import KnowledgeGraph
from tests.children import ROOT
from tests.kept.training.tiny_pretraining import write_everything


def test_half_of_the_anchors_lose_their_facts_in_pre_training() -> None:
    builder = builder_for(method("colake"), BuilderConfig(), {}, in_pretraining=True)
    assert (builder.drop_probability, builder.drop) == (0.5, "anchor")


@pytest.mark.parametrize("name", METHODS)
def test_a_task_sees_every_fact(name: str) -> None:
    assert builder_for(method(name), BuilderConfig(), {}).drop_probability == 0


@pytest.mark.parametrize("probability", [0.0, 0.2])
def test_a_probability_of_ones_own_stands(probability: float) -> None:
    settings = BuilderConfig(drop_probability=probability)
    for in_pretraining in (True, False):
        builder = builder_for(method("colake"), settings, {}, in_pretraining=in_pretraining)
        assert (builder.drop_probability, builder.drop) == (probability, "triple")


@pytest.mark.parametrize("name", METHODS)
def test_a_method_drops_what_its_line_says(name: str) -> None:
    builder = builder_for(METHODS[name], BuilderConfig(), {}, in_pretraining=True)
    assert builder.drop_probability == METHODS[name].in_pretraining.get("drop_probability", 0)


def test_a_run_pre_trains_with_half_of_the_anchors_bare(
    tmp_path: Path, small_graph: KnowledgeGraph
) -> None:
    fields = write_everything(tmp_path, small_graph) | {"graph": {"max_neighbours": 3}}
    _, data = assemble(PretrainConfig.read(None, fields))
    assert isinstance(data, WordGraphData)
    n_bare, n_anchors = 0, 0
    for epoch in range(20):
        for i in range(len(data)):
            graph = join_words(
                data._texts[i], data._words_of(i), small_graph,
                generator=generator(4, "graph", epoch, i), config=data.builder,
            )  # fmt: skip
            owners = set(graph.origins[graph.kinds == NodeKind.RELATION, 0].tolist())
            links = graph.origins[: graph.n_nodes, 0]
            for link in set(links[graph.kinds == NodeKind.ENTITY].tolist()):
                name = data._texts[i].links[link].entity
                assert name is not None
                if len(small_graph.outgoing(small_graph.entities.id(name))):
                    n_anchors += 1
                    n_bare += link not in owners
    assert n_anchors > 200
    assert n_bare / n_anchors == pytest.approx(0.5, abs=0.08)


@pytest.mark.parametrize("name", [n for n, m in METHODS.items() if "nsp" in m.published_with])
def test_next_sentences_are_asked_for_by_name(
    name: str, tmp_path: Path, small_graph: KnowledgeGraph
) -> None:
    """As docs/reference/quirks.md says: the published loss that the method's line leaves out."""
    assert "nsp" not in METHODS[name].objectives
    page = (ROOT / "docs/reference/quirks.md").read_text(encoding="utf-8")
    (command,) = re.findall(rf"`kept pretrain --method {name}((?: --objective \w+)+) …`", page)
    objectives = re.findall(r"--objective (\w+)", command)
    assert objectives == [*METHODS[name].objectives, "nsp"]
    fields = write_everything(tmp_path, small_graph) | {"method": name}
    config = PretrainConfig.read(None, fields | {"objectives": {each: {} for each in objectives}})
    model, data = assemble(config)
    samples = [data.sample(i, epoch=0, seed=0) for i in range(6)]
    batches = [data.collate(samples, epoch=0, seed=0, step=step) for step in range(data.period)]
    losses = {name: loss for batch in batches for name, loss in model(batch).losses.items()}
    assert set(losses) == {*objectives}
    losses["nsp"].backward()
    gradient = model.objectives["nsp"].classes.weight.grad
    assert gradient is not None
    assert gradient.abs().sum() > 0
