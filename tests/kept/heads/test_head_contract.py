"""What every head promises over every method; a head or method in the tables is in this suite."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from entity_linking.dictionary import DictionaryLinker
from entity_linking.mentions import Candidate, LinkedText, Mention
from kept import hosts
from kept.batches import IGNORE, KnowledgeBatch
from kept.errors import BatchError, CheckpointError, ConfigError, HostError
from kept.graphs.builder import BuilderConfig
from kept.graphs.words import join_texts
from kept.heads.candidates import entity_table
from kept.heads.model import HEADS, KnowledgeForTask, task_loss
from kept.heads.span import SpanOptions
from kept.inputs.views import builder_for
from kept.methods import METHODS
from kept.tasks.datasets.formats import TaskExample
from kept.tasks.datasets.questions.choices import choice_example
from kept.tasks.kinds import (
    CHOICE,
    LINKING,
    MULTI,
    REGRESSION,
    SCORE,
    SINGLE,
    SPAN,
    START_END,
    TAGGING,
)
from kept.training.finetuning.data import TaskData
from kept.training.finetuning.linking.questions import CandidateData, Question, questions_of
from kg_loaders import KnowledgeGraph, Triple, graph_from_records
from kg_loaders.errors import GraphMismatchError
from tests.kept.tiny_hosts import BERT_LIKE, FAMILIES, tiny_host
from tests.kept.training.parts_of_steps import gradients_of, losses_in_parts

LABELS = ["a", "b", "c"]
OPTIONS: dict[str, dict[str, Any]] = {
    "pooled": {}, "transform": {}, "targets": {"n_targets": 2}, "tagging": {},
    "uer": {}, "span": {"stride": 8}, "candidates": {}, "graph": {"layers": 1, "width": 12},
    "entities": {"n_targets": 2},
}  # fmt: skip
OF_TEXTS = (SINGLE, MULTI, REGRESSION)
OF_ROWS = (*OF_TEXTS, CHOICE)
KINDS: dict[str, tuple[str, ...]] = {
    "pooled": OF_ROWS, "transform": OF_ROWS, "targets": OF_TEXTS, "tagging": (TAGGING,),
    "uer": OF_ROWS, "span": (SPAN,), "candidates": (LINKING,), "graph": OF_ROWS,
    "entities": OF_TEXTS,
}  # fmt: skip
WITH_VECTORS = ("colake", "ebert", "luke")
"""Methods whose entities have vectors in the space of words."""
WITH_GRAPHS = ("qagnn", "greaselm")
"""Methods with a graph network."""
WITH_MASKS = ("luke",)
"""Methods with a [MASK] entity for each target."""
RATES = dict.fromkeys(WITH_GRAPHS, 2e-3)
"""Of methods that diverge at the rate of the others."""
OF_SOME = {"candidates": WITH_VECTORS, "graph": WITH_GRAPHS, "entities": WITH_MASKS}
"""Heads that other methods cannot have."""
FURTHER = [(OF_SOME.get(h, ("colake",))[0], h, kind) for h in HEADS for kind in KINDS[h][1:]]
CASES = [
    *((m, h, KINDS[h][0]) for h in HEADS for m in OF_SOME.get(h, METHODS)),
    *FURTHER,
]


@dataclass(frozen=True)
class Case:
    """A head over a method on a tiny host, with a labelled batch."""

    method: str
    head: str
    kind: str
    model: KnowledgeForTask
    samples: list[KnowledgeBatch]
    graph: KnowledgeGraph

    @cached_property
    def batch(self) -> KnowledgeBatch:
        return KnowledgeBatch.stack(self.samples)

    def without_labels(self) -> KnowledgeBatch:
        return dataclasses.replace(self.batch, labels=None, node_labels=None)


def task_examples(linked: list[LinkedText], kind: str) -> list[TaskExample]:
    """The shortest texts with two links; their links are the targets."""
    examples = []
    for text in sorted(linked, key=lambda text: len(text.text)):
        targets = tuple(link.mention for link in text.links)[:2]
        if len(targets) < 2:
            continue
        i = len(examples)
        labels: tuple[str, ...] = (LABELS[i % 3],)
        if kind == MULTI:
            labels = tuple(LABELS[: i % 3])
        elif kind == TAGGING:
            labels = (LABELS[i % 3], LABELS[(i + 1) % 3])
        elif kind == SPAN:
            joined = join_texts(LinkedText("Who is it?", ()), text)
            shift = joined.pair_start or 0
            answer = Mention(targets[0].start + shift, targets[0].end + shift)
            examples.append(TaskExample(joined, ("x",), (answer,)))
            continue
        elif kind == CHOICE:
            names = [text.text[target.start : target.end] for target in targets]
            examples.append(choice_example(text.text, names + ["x"] * (i % 2), right=1 + i % 2))
            continue
        elif kind == REGRESSION:
            labels = (("0.0", "4.75", "-2")[i % 3],)
        examples.append(TaskExample(text, labels, targets))
    return examples[:3]


def link_questions(linked: list[LinkedText], graph: KnowledgeGraph) -> list[Question]:
    """Three questions about other mentions; one means none, and one has a second candidate."""
    texts = sorted(linked, key=lambda text: len(text.text))[:6]
    proposed = DictionaryLinker(graph).link([text.text for text in texts])
    known = questions_of(proposed, lambda name: name in graph.entities, "[MASK]", gold=proposed)
    first, second, third = known[:3]
    other = next(
        Candidate(name, 0.25, 0.0)
        for name in graph.entities
        if name not in {c.entity for c in second.candidates}
    )
    second = dataclasses.replace(second, candidates=(other, *second.candidates), gold=2)
    return [first, second, dataclasses.replace(third, gold=0)]


def classes_for(kind: str) -> list[str]:
    one = {key: [SCORE] for key in (REGRESSION, CHOICE, LINKING)}
    return {**one, SPAN: [*START_END]}.get(kind, LABELS)


def task_model(
    method: str, head: str, kind: str, graph: KnowledgeGraph, tokenizer: Any, family: str = "bert"
) -> KnowledgeForTask:
    host = tiny_host(family, n_words=len(tokenizer), n_positions=128)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        encoder = METHODS[method].encoder.for_graph(host, graph, tokenizer, seed=0)
        classes = classes_for(kind)
        model = KnowledgeForTask.of(encoder, head, classes, problem_type=kind, **OPTIONS[head])
    return model.eval()


@pytest.fixture(scope="module", params=CASES, ids=["-".join(case) for case in CASES])
def case(
    request: pytest.FixtureRequest,
    small_graph: KnowledgeGraph,
    tokenizer: Any,
    linked: list[LinkedText],
) -> Case:
    method, head, kind = request.param
    n_words = 24 if kind == SPAN else 60  # a context has several windows
    small = BuilderConfig(max_neighbours=2, max_words=n_words, max_nodes=120, policy="degree")
    options: dict[str, Any] = {
        "builder": builder_for(METHODS[method], small, {}),
        "view": METHODS[method].view.of(small_graph, tokenizer),
    }
    data: TaskData | CandidateData
    if kind == LINKING:
        data = CandidateData(link_questions(linked, small_graph), small_graph, tokenizer, **options)
    else:
        data = TaskData(
            task_examples(linked, kind),
            small_graph,
            tokenizer,
            problem_type=kind,
            labels={label: i for i, label in enumerate(classes_for(kind))},
            spans=SpanOptions(**OPTIONS["span"]) if kind == SPAN else None,
            **options,
        )
    samples = [data.sample(i, epoch=0, seed=0) for i in range(len(data))]
    model = task_model(method, head, kind, small_graph, tokenizer)
    return Case(method, head, kind, model, samples, small_graph)


def test_every_head_is_here() -> None:
    assert list(OPTIONS) == list(KINDS) == list(HEADS)
    assert {kind for kinds in KINDS.values() for kind in kinds} == {
        SINGLE, MULTI, TAGGING, REGRESSION, SPAN, CHOICE, LINKING,
    }  # fmt: skip
    n_of_all = (len(HEADS) - len(OF_SOME)) * len(METHODS)
    n_of_some = sum(map(len, OF_SOME.values()))
    assert len(CASES) == n_of_all + n_of_some + len(FURTHER) >= 7


def test_methods_without_vectors_among_words_are_refused(
    small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    host = tiny_host(n_words=len(tokenizer))
    for name, line in METHODS.items():
        encoder = line.encoder.for_graph(host, small_graph, tokenizer, seed=0)
        if name in WITH_VECTORS:
            assert encoder.get_submodule(entity_table(encoder)) is not None
            continue
        with pytest.raises(ConfigError, match="the head candidates compares with; take ebert"):
            KnowledgeForTask.of(encoder, "candidates", [SCORE], problem_type=LINKING)


def test_methods_without_a_graph_network_are_refused(
    small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    encoder = METHODS["none"].encoder.for_graph(
        tiny_host(n_words=len(tokenizer)), small_graph, tokenizer, seed=0
    )
    with pytest.raises(ConfigError, match="take the method qagnn or greaselm"):
        KnowledgeForTask.of(encoder, "graph", LABELS)
    with pytest.raises(ConfigError, match="use 0 or more layers"):
        KnowledgeForTask.of(encoder, "graph", LABELS, layers=-1)


@torch.no_grad()
def test_shapes_and_losses(case: Case) -> None:
    output = case.model(case.batch)
    n_batch, n_nodes = case.batch.node_ids.shape
    n_classes = len(classes_for(case.kind))
    if case.kind == LINKING:
        assert case.batch.candidate_ids is not None
        n_classes = 1 + case.batch.candidate_ids.shape[2]
    is_by_node = case.kind in (TAGGING, SPAN)
    expected = (n_batch, n_nodes, n_classes) if is_by_node else (n_batch, n_classes)
    assert output.class_logits.shape == expected
    assert list(output.losses) == ["class"]
    assert output.losses["class"].shape == ()
    assert output.losses["class"].isfinite()
    assert case.model(case.without_labels()).losses == {}


@torch.no_grad()
def test_a_batch_equals_batches_of_one(case: Case) -> None:
    whole = case.model(case.batch).class_logits
    rows = [sample.take(slice(i, i + 1)) for sample in case.samples for i in range(len(sample))]
    for i, sample in enumerate(rows):
        alone = case.model(sample.replace(labels=None, node_labels=None)).class_logits[0]
        same = whole[i, : len(alone)] if case.kind in (TAGGING, SPAN, LINKING) else whole[i]
        torch.testing.assert_close(same, alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("cut", [1, 2, None])
def test_a_batch_has_the_gradient_of_its_parts(case: Case, cut: int | None) -> None:
    """Cut after one or two examples, or in parts of one: every example weighs alike."""
    ends = range(len(case.samples) + 1) if cut is None else (0, cut, len(case.samples))
    parts = [KnowledgeBatch.stack(case.samples[a:b]) for a, b in pairwise(ends)]
    whole = gradients_of(case.model, case.model(case.batch).losses)
    in_parts = gradients_of(case.model, losses_in_parts(case.model, parts))
    assert in_parts.keys() == whole.keys()
    for name, gradient in whole.items():
        torch.testing.assert_close(in_parts[name], gradient, atol=1e-5, rtol=1e-3, msg=name)


def test_overfits_one_batch(case: Case) -> None:
    before = {k: v.detach().clone() for k, v in case.model.state_dict().items()}
    parameters = [p for p in case.model.parameters() if p.requires_grad]
    rate = RATES.get(case.method, 6e-3)
    sparse = {id(m.weight) for m in case.model.modules() if getattr(m, "sparse", False)}
    dense = torch.optim.Adam([p for p in parameters if id(p) not in sparse], lr=rate)
    if case.method in WITH_GRAPHS:  # batch statistics are what keeps their layers' sums in bounds
        without_dropout(case.model.train())
    first = case.model(case.batch).losses["class"].item()
    for _ in range(300):
        case.model.zero_grad()
        loss = case.model(case.batch).losses["class"]
        if (last := loss.item()) < 0.3 * first:
            break
        loss.backward()
        dense.step()
    case.model.eval().load_state_dict(before)
    assert last < 0.3 * first


def without_dropout(model: KnowledgeForTask) -> None:
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0


@torch.no_grad()
def test_saved_and_loaded_it_says_the_same(case: Case, tmp_path: Path) -> None:
    case.model.save_pretrained(tmp_path)
    again = KnowledgeForTask.from_pretrained(tmp_path, graph=case.graph).eval()
    expected = case.model(case.batch).class_logits
    scores = again(case.batch).class_logits
    if case.kind in (
        REGRESSION,
        CHOICE,
        LINKING,
    ):  # one output is a dot product, summed as its memory is aligned
        torch.testing.assert_close(scores, expected, atol=1e-6, rtol=1e-6)
    else:
        assert torch.equal(scores, expected)
    weights = again.state_dict()
    assert all(torch.equal(weights[name], w) for name, w in case.model.state_dict().items())
    assert again.config.id2label == dict(enumerate(classes_for(case.kind)))
    if case.head != "pooled" and case.method != "colake":
        return  # what follows depends on the method, or on the head, and not on the pair
    encoder = type(case.model.encoder).from_pretrained(tmp_path).eval()
    states = case.model(case.batch).node_states
    assert torch.equal(encoder(case.batch).node_states, states)
    other = graph_from_records([Triple("Q1", "P1", "Q2")])
    if not case.model.encoder.holds_rows:
        KnowledgeForTask.from_pretrained(tmp_path, graph=other)
        return
    with pytest.raises(GraphMismatchError):
        KnowledgeForTask.from_pretrained(tmp_path, graph=other)


def test_label_faults_are_named(case: Case) -> None:
    field = "node_labels" if case.kind == TAGGING else "labels"
    labels = getattr(case.batch, field)
    if case.kind != TAGGING:
        other_labels = dataclasses.replace(
            case.batch, labels=labels.new_zeros((len(case.batch), 9))
        )
        with pytest.raises(BatchError, match=rf"labels have shape .*{case.kind} needs"):
            case.model(other_labels)
    if case.kind == REGRESSION:
        unknown = dataclasses.replace(case.batch, labels=labels * float("nan"))
        with pytest.raises(BatchError, match="learns finite numbers"):
            case.model(unknown)
    elif case.kind != MULTI:
        n = {SPAN: case.batch.node_ids.shape[1], CHOICE: 2, LINKING: 3}.get(case.kind, 3)
        high = torch.where(labels == IGNORE, IGNORE, n)
        with pytest.raises(BatchError, match=f"label {n} is outside the {n} classes"):
            case.model(dataclasses.replace(case.batch, **{field: high}))
    if case.kind == TAGGING:
        unasked = torch.full_like(labels, IGNORE)
        loss = case.model(dataclasses.replace(case.batch, node_labels=unasked)).losses["class"]
        assert loss.item() == 0.0
    if case.head == "targets":
        one = dataclasses.replace(case.batch, target_spans=case.batch.target_spans[:, :1])
        with pytest.raises(BatchError, match=r"1 target\(s\) a text, this head reads 2"):
            case.model(one)
        for spans in (None, case.batch.target_spans * 0):
            with pytest.raises(BatchError, match="reads target_spans"):
                case.model(dataclasses.replace(case.batch, target_spans=spans))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("head", HEADS)
def test_every_head_takes_every_family(
    head: str, family: str, small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    method = OF_SOME.get(head, ("colake",))[0]
    if METHODS[method].encoder.needs_bert_layers and family not in BERT_LIKE:
        with pytest.raises(HostError, match="parts of BERT's layers"):
            task_model(method, head, KINDS[head][0], small_graph, tokenizer, family)
        return
    model = task_model(method, head, KINDS[head][0], small_graph, tokenizer, family)
    if head == "candidates":
        width = hosts.word_table(model.encoder.host).embedding_dim
        assert model.head.null_vector.shape == (width,)
    elif head == "graph":
        assert model.head.mlp.steps[-1].out_features == len(classes_for(KINDS[head][0]))
    else:
        assert model.head.classes.out_features == len(classes_for(KINDS[head][0]))


def test_a_regression_is_judged_by_its_squared_error() -> None:
    outputs, labels = torch.tensor([[1.0], [4.75], [0.0]]), torch.tensor([0, 4, -2])
    loss = task_loss(REGRESSION, outputs, labels)
    assert loss.item() == pytest.approx((1.0 + 0.75**2 + 4.0) / 3)
    with pytest.raises(BatchError, match="one output, this head has 3"):
        task_loss(REGRESSION, torch.zeros(2, 3), torch.zeros(2))


def test_frozen_parts_stay_frozen_after_loading(
    small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path
) -> None:
    def trained(model: KnowledgeForTask) -> set[str]:
        return {name.split(".")[0] for name, p in model.named_parameters() if p.requires_grad}

    host = tiny_host(n_words=len(tokenizer))
    for method in METHODS.values():
        encoder = method.encoder.for_graph(host, small_graph, tokenizer, seed=0)
        model = KnowledgeForTask.of(encoder, "pooled", LABELS, frozen=["encoder"])
        assert trained(model) == {"head"}
        model.save_pretrained(tmp_path)
        again = KnowledgeForTask.from_pretrained(tmp_path)
        assert trained(again) == {"head"}
        with pytest.raises(ConfigError, match="has no part 'hosts'"):
            KnowledgeForTask.of(encoder, "pooled", LABELS, frozen=["hosts"])


def test_names_are_checked(small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path) -> None:
    encoder = task_model("colake", "pooled", SINGLE, small_graph, tokenizer).encoder
    with pytest.raises(ConfigError, match="no head 'pool'; did you mean pooled"):
        KnowledgeForTask.of(encoder, "pool", LABELS)
    with pytest.raises(ConfigError, match="head pooled has no option 'n_targets'"):
        KnowledgeForTask.of(encoder, "pooled", LABELS, n_targets=1)
    with pytest.raises(ConfigError, match="read is 'last'"):
        KnowledgeForTask.of(encoder, "pooled", LABELS, read="last")
    encoder.config.head = {}
    encoder.save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match="without a task head"):
        KnowledgeForTask.from_pretrained(tmp_path)
