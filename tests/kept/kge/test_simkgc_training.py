"""SimKGC's texts, neighbourhoods, training and scores, beside stupid restatements."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from kept.errors import ConfigError, EvaluationError, TrainingError
from kept.evaluation.ranking import Filter, rank
from kept.hosts import layers
from kept.kge.simkgc.benchmarks import read_benchmark
from kept.kge.simkgc.networks import BiEncoder, PreBatch
from kept.kge.simkgc.ranking import SimKGCScorer
from kept.kge.simkgc.texts import Links, Texts
from kept.kge.simkgc.training import KnownTriples, SimKGCConfig, Step, rates, train_simkgc
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_hosts import fast_tokenizer, tiny_host

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ":", "inverse", "next",
         *(f"w{i}" for i in range(12))]  # fmt: skip
N = 10
TRIPLES = np.array([(i, 0, i + 1) for i in range(N - 1)])


def tokenizer():
    inner = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )  # fmt: skip
    return fast_tokenizer(inner)


def texts(links: Links | None = None) -> Texts:
    return Texts([f"w{i}" for i in range(N)], [""] * N, ["next"], links)


def step(**changes) -> Step:
    config = SimKGCConfig(**{"n_epochs": 40, "batch_size": 6, "learning_rate": 3e-3, "warmup": 2,
                             "n_tokens": 12} | changes)  # fmt: skip
    known = KnownTriples(TRIPLES, n_entities=N, n_relations=1)
    queue = None
    if config.n_pre_batch:
        queue = PreBatch(n_batches=config.n_pre_batch, batch_size=6, width=16,
                         generator=torch.Generator().manual_seed(1))  # fmt: skip
    host = tiny_host(n_words=len(WORDS))
    for module in host.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0  # so narrow a host learns nothing under it
    for layer in layers(host):
        layer.attention.self.dropout.p = 0.0
    model = BiEncoder(host)
    return Step(model, tokenizer(), texts(), known, config, queue)


@pytest.mark.parametrize("n_pre_batch", [0, 2])
def test_training_finds_the_chain(n_pre_batch: int) -> None:
    one = step(n_pre_batch=n_pre_batch)
    history = train_simkgc(one, TRIPLES, generator=torch.Generator().manual_seed(0))
    assert history.losses[-1] < 0.5 * history.losses[0]
    assert history.n_steps == 40 * 3
    scorer = SimKGCScorer(one.model, one.tokenizer, one.texts, n_tokens=12)
    known = Filter({"train": TRIPLES}, n_entities=N, n_relations=1)
    result = rank(scorer, TRIPLES, filter=known, ties="realistic", directions=("head", "tail"),
                  candidates="all")  # fmt: skip
    assert result.mrr > 0.9


def test_equal_seeds_give_equal_weights_and_a_limit_of_steps_holds() -> None:
    states = []
    for _ in range(2):
        one = step(n_steps=4)
        history = train_simkgc(one, TRIPLES, generator=torch.Generator().manual_seed(3))
        assert (history.n_steps, len(history.losses)) == (4, 2)
        states.append(one.model.state_dict())
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_the_best_epoch_is_kept() -> None:
    one, values, kept = step(n_epochs=3), iter([0.1, 0.3, 0.2]), []

    def validate() -> float:
        assert not one.model.training
        kept.append(one.model.log_scale.item())
        return next(values)

    history = train_simkgc(one, TRIPLES, generator=torch.Generator(), validate=validate)
    assert history.best_epoch == 2
    assert history.validations == ((1, 0.1), (2, 0.3), (3, 0.2))
    assert one.model.log_scale.item() == kept[1] != kept[2]


def test_what_cannot_be_trained_is_refused() -> None:
    with pytest.raises(ConfigError, match="18 triples with their inverses are not a batch of 20"):
        train_simkgc(step(batch_size=20), TRIPLES, generator=torch.Generator())
    with pytest.raises(ConfigError, match="batch_size 1 is below 2; warmup -1 is below 0"):
        SimKGCConfig(n_epochs=1, batch_size=1, warmup=-1)
    broken = step()
    with torch.no_grad():
        broken.model.log_scale.fill_(torch.nan)
    with pytest.raises(TrainingError, match="lower learning_rate"):
        train_simkgc(broken, TRIPLES, generator=torch.Generator())


def test_masks_equal_loops() -> None:
    triples = np.array([(0, 0, 1), (0, 0, 2), (3, 0, 3), (4, 0, 1), (5, 0, 6)])
    known = KnownTriples(triples, n_entities=7, n_relations=1)
    batch = np.array([(0, 0, 1), (0, 0, 2), (4, 0, 1), (1, 1, 0), (5, 0, 4), (3, 0, 6)])
    facts = {(h, r, t) for h, r, t in triples.tolist()}
    facts |= {(t, r + 1, h) for h, r, t in triples.tolist()}
    mask, head_mask = known.mask(batch), known.head_mask(batch)
    for i, (h, r, t) in enumerate(batch.tolist()):
        answers = {tail for head, relation, tail in facts if (head, relation) == (h, r)}
        assert bool(head_mask[i]) == ((h, r, h) not in facts)
        for j, other in enumerate(batch[:, 2].tolist()):
            is_known = len(answers) > 1 and other in answers
            assert bool(mask[i, j]) == (i == j or (other != t and not is_known))


def test_neighbourhoods_equal_a_breadth_first_search() -> None:
    draws = np.random.default_rng(0)
    triples = np.stack([draws.integers(0, 12, 9), draws.integers(0, 2, 9),
                        draws.integers(0, 12, 9)], 1)  # fmt: skip
    links = Links(triples, 12)
    neighbours = {i: sorted({b for a, _, b in triples.tolist() if a == i}
                        | {a for a, _, b in triples.tolist() if b == i})
              for i in range(12)}  # fmt: skip
    for entity, n_hops in itertools.product(range(12), range(4)):
        reached = {entity}
        for _ in range(n_hops):
            reached |= {other for one in reached for other in neighbours[one]}
        assert links.of(entity).tolist() == neighbours[entity]
        assert links.within(entity, n_hops).tolist() == sorted(reached)
    assert len(links.within(0, 3, limit=0)) == 0


def test_scores_are_cosines_raised_near_the_question() -> None:
    one, links = step(), Links(TRIPLES, N)
    plain = SimKGCScorer(one.model, one.tokenizer, one.texts, n_tokens=12)
    raised = SimKGCScorer(one.model, one.tokenizer, one.texts, n_tokens=12, links=links,
                          weight=0.25, n_hops=1)  # fmt: skip
    rows = torch.tensor([[0, 0, 1], [4, 0, 5]])
    for side, anchors in (("tail", (0, 4)), ("head", (1, 5))):
        gain = raised.scores(side, rows) - plain.scores(side, rows)
        for row, anchor in enumerate(anchors):
            near = [i for i in range(N) if abs(i - anchor) <= 1]
            expected = torch.zeros(N).index_fill(0, torch.tensor(near), 0.25)
            assert torch.allclose(gain[row], expected, atol=1e-6)
    alone = plain.scores("tail", rows[1:])
    assert torch.allclose(plain.scores("tail", rows)[1:], alone, atol=1e-6)
    with pytest.raises(EvaluationError, match="leave the direction relation out"):
        plain.scores("relation", rows)


def test_texts_of_a_graph(small_graph: KnowledgeGraph) -> None:
    texts = Texts.of(small_graph, n_words=3)
    paris = small_graph.entities.id("Q90")
    description = small_graph.description(paris)
    assert description is not None
    shortened = " ".join(description.split()[:3])
    assert texts.entity(paris) == f"{small_graph.label(paris)}: {shortened}"
    n = small_graph.n_relations
    assert texts.relation(n) == f"inverse {small_graph.relation_label(0)}"
    other = texts.with_description(paris, "elsewhere")
    assert other.entity(paris).endswith(": elsewhere")
    assert texts.entity(paris).endswith(shortened)


def test_rates_rise_and_fall() -> None:
    rates_ = list(rates(30, SimKGCConfig(n_epochs=1, learning_rate=1.0, warmup=400)))
    assert rates_[:4] == [0, 1 / 3, 2 / 3, 1]
    assert rates_[-1] == pytest.approx(1 / 27)


def test_two_relations_of_one_text_and_unknown_benchmarks_are_refused() -> None:
    files: dict[str, list[str]] = {
        "FB15k_mid2name.txt": ["a\tA", "b\tB"], "FB15k_mid2description.txt": [],
        "train.txt": ["a\t/x/y_z\tb", "b\t/x/y z\ta"], "valid.txt": [], "test.txt": [],
    }  # fmt: skip
    with pytest.raises(ConfigError, match="have one text, 'y z x '"):
        read_benchmark("fb15k237", files)
    with pytest.raises(ConfigError, match="'nell' is unknown"):
        read_benchmark("nell", files)
