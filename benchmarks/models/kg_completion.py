"""Knowledge-graph completion, ours against PyKEEN in one run: filtered ranking and training.

    KEPT_DATA=... OMP_NUM_THREADS=1 \
        python benchmarks/models/kg_completion.py [--quick] [--kinds ComplEx]

Graph: CoDEx-M from KEPT_DATA (CoDEx-S with `--quick`), else random triples of CoDEx-S' size.
Vectors have 128 numbers for TransE and DistMult, 128 complex numbers for ComplEx and RotatE; they
are trained for one short epoch before they are ranked, and are the same on both sides.

Ranking: both sides of a triple, filtered by all splits. PyKEEN answers `--few` and `--many` test
triples; the slope between them is its cost a triple, free of fixed costs, times the size of the
test split (`peer_by_a_line`; the whole split would take it 3 to 22 minutes). We answer the whole
split, our filter's construction included. `kept_measured_s` and `peer_measured_s` are those of both
on the same `--many` triples, fixed costs included. Their metrics must agree to four digits: a tie
in single precision moves a rank by a half.

Training: 32 negatives a triple, one side corrupted, the margin loss, Adam, batches of 512, without
regularisers or constraints; the same number of triples, the best of `--repeat` runs and dense
Adam on both sides. "shared" is our faster recommendation, 32 negatives a batch: another objective,
so it is in no ratio with PyKEEN.

Both also against plain torch, as one writes it today: ranking by one product a batch of 256
questions, known answers masked with `index_put`, numbers above counted; training with negatives
that a batch shares, the same draws, loss, number of updates and Adam (torch's default; `fused_s`
is its fused form). `floor_s` of ranking is the product of all questions alone, by torch. A training
step of ULTRA on WN18RR_v1: messages of all edges for every question, summed with `index_add`.

At the end of each part the fitted exponent over a quarter, half and all of what we were given.
JSON lines.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.measuring import (
    Spent,
    compared,
    growth,
    in_turn,
    is_missing,
    once,
    three_sizes,
    write_line,
)
from kept.evaluation.ranking import Filter, RankingResult, rank
from kept.kge import Scorer, TrainingConfig, make_scorer, train
from kept.kge.splits import read_splits
from kept.kge.ultra.graphs import Edges, relation_graph
from kept.kge.ultra.networks import make_ultra
from kept.kge.ultra.training import ultra_loss
from kept.tasks.datasets.inductive import read_grail

KINDS: dict[str, tuple[str, int, Any]] = {
    "TransE L1": ("transe", 128, 1),
    "TransE L2": ("transe", 128, 2),
    "DistMult": ("distmult", 128, None),
    "ComplEx": ("complex", 256, None),
    "RotatE L2": ("rotate", 256, 2),
}
TRAINED = ("TransE L2", "ComplEx", "RotatE L2")
METRICS = {
    "mr": "arithmetic_mean_rank",
    "mrr": "inverse_harmonic_mean_rank",
    **{f"hits@{k}": f"hits_at_{k}" for k in (1, 3, 10)},
}
SAMPLED = TrainingConfig(
    n_epochs=1, batch_size=512, learning_rate=1e-3, optimiser="adam",
    objective="negative_sampling", loss="margin", margin=1.0, corrupt="uniform", n_negatives=32,
)  # fmt: skip
SHORT = TrainingConfig(
    n_epochs=1, batch_size=512, learning_rate=0.1, objective="negative_sampling",
    n_negatives=64, share_negatives=True,
)  # fmt: skip
Splits = dict[str, np.ndarray]


def load(quick: bool) -> tuple[str, dict[str, int], Splits]:
    root = os.environ.get("KEPT_DATA")
    if root:
        name = "codex-s" if quick else "codex-m"
        read = read_splits(Path(root) / "codex" / name, holdout=0.1, seed=0)
        sizes = {"n_entities": read.graph.n_entities, "n_relations": read.graph.n_relations}
        return name, sizes, {k: v.astype(np.int64) for k, v in read.as_mapping().items()}
    rows = np.random.default_rng(0).integers(0, [2034, 42, 2034], (36_543, 3))
    parts = np.split(rows, [32_888, 34_715])
    named = dict(zip(("train", "valid", "test"), parts, strict=True))
    return "random triples", {"n_entities": 2034, "n_relations": 42}, named


def fresh(kind: str, sizes: dict[str, int]) -> Scorer:
    name, width, norm = KINDS[kind]
    generator = torch.Generator().manual_seed(0)
    return make_scorer(name, **sizes, width=width, generator=generator, norm=norm)


def as_pykeen(kind: str, ours: Scorer, triples: np.ndarray) -> Any:
    """PyKEEN's model with our vectors, without regularisers and constraints."""
    from pykeen import models
    from pykeen.losses import MarginRankingLoss
    from pykeen.triples import CoreTriplesFactory

    name, width, norm = KINDS[kind]
    factory = CoreTriplesFactory(torch.from_numpy(triples), ours.n_entities, ours.n_relations)
    kinds = {"transe": models.TransE, "distmult": models.DistMult, "complex": models.ComplEx,
             "rotate": models.RotatE}  # fmt: skip
    options: dict[str, Any] = {"regularizer": None} if name != "rotate" else {}
    if name in ("transe", "distmult"):
        options["entity_constrainer"] = None
    if name == "transe":
        options["scoring_fct_norm"] = norm
    theirs = kinds[name](
        triples_factory=factory, random_seed=0, loss=MarginRankingLoss(margin=1.0),
        embedding_dim=width // 2 if name in ("complex", "rotate") else width, **options,
    )  # fmt: skip
    entities, relations = ours.entities.detach(), ours.relations.detach()
    if name in ("complex", "rotate"):
        entities = torch.stack(entities.chunk(2, -1), -1).flatten(1)
    if name == "complex":
        relations = torch.stack(relations.chunk(2, -1), -1).flatten(1)
    if name == "rotate":
        relations = torch.stack([relations.cos(), relations.sin()], -1).flatten(1)
    for weights, module in ((entities, theirs.entity_representations[0]),
                            (relations, theirs.relation_representations[0])):  # fmt: skip
        module._embeddings.weight.data.copy_(weights)
    return theirs


def rank_ours(scorer: Scorer, splits: Splits, tested: np.ndarray, budget: int) -> RankingResult:
    sizes = {"n_entities": scorer.n_entities, "n_relations": scorer.n_relations}
    return rank(scorer, tested, filter=Filter(splits, **sizes), ties="realistic",
                directions=("head", "tail"), candidates="all", byte_budget=budget)  # fmt: skip


def compare_ranking(kind: str, sizes: dict[str, int], splits: Splits, options: Any) -> None:
    from pykeen.evaluation import RankBasedEvaluator

    scorer = fresh(kind, sizes)
    train(scorer, splits["train"], config=SHORT, generator=torch.Generator().manual_seed(1))
    theirs = as_pykeen(kind, scorer, splits["train"])
    order = np.random.default_rng(0).permutation(len(splits["test"]))
    others = [torch.from_numpy(splits[part]) for part in ("train", "valid", "test")]

    def run_theirs(n: int) -> Any:
        return RankBasedEvaluator(filtered=True).evaluate(
            theirs, torch.from_numpy(splits["test"][order[:n]]), batch_size=options.batch_size,
            additional_filter_triples=others, use_tqdm=False,
        )  # fmt: skip

    def run_ours(n: int) -> RankingResult:
        return rank_ours(scorer, splits, splits["test"][:n], 16 << 20)

    run_theirs(options.few)  # what is only paid once
    (few,) = in_turn([lambda: run_theirs(options.few)], 2)
    many, n_test = once(lambda: run_theirs(options.many)), len(splits["test"])
    scale = n_test / (options.many - options.few)
    slope = [scale * (more - less) for more, less in zip(many[:2], few[:2], strict=True)]
    *parts, ours = in_turn([lambda n=n: run_ours(n) for n in three_sizes(n_test)], options.repeat)
    same = once(lambda: rank_ours(scorer, splits, splits["test"][order[: options.many]], 16 << 20))
    metrics = same.result.metrics()
    for metric, name in METRICS.items():
        expected = many.result.get_metric(f"both.realistic.{name}")
        if not np.isclose(metrics[metric], expected, rtol=1e-4, atol=1e-5):
            raise SystemExit(f"{kind}: {metric} is {metrics[metric]}, PyKEEN's {expected}")
    compared(
        "ranking", ours, Spent(*slope, None), equal=True, kind=kind, triples=n_test,
        mrr=round(metrics["mrr"], 6), peer_by_a_line=True,
        measured_of_both=options.many, kept_measured_s=round(same.processor, 3),
        peer_measured_s=round(many.processor, 3),
    )  # fmt: skip
    growth("ranking", "triples", three_sizes(n_test),
           [spent.processor for spent in (*parts, ours)], kind=kind)  # fmt: skip


def compare_training(kind: str, sizes: dict[str, int], splits: Splits, options: Any) -> None:
    from pykeen.training import SLCWATrainingLoop
    from pykeen.triples import CoreTriplesFactory

    part = splits["train"][
        np.random.default_rng(0).permutation(len(splits["train"]))[: options.trained]
    ]

    def run_ours(config: TrainingConfig, n: int = len(part)) -> Callable[[], Any]:
        return lambda: train(
            fresh(kind, sizes), part[:n], config=config, generator=torch.Generator().manual_seed(1)
        )

    def run_theirs() -> Any:
        theirs = as_pykeen(kind, fresh(kind, sizes), part)
        factory = CoreTriplesFactory(
            torch.from_numpy(part), sizes["n_entities"], sizes["n_relations"]
        )
        theirs.reset_parameters_ = lambda: theirs  # a loop begins by drawing weights of its own
        loop = SLCWATrainingLoop(
            model=theirs, triples_factory=factory,
            optimizer=torch.optim.Adam(theirs.parameters(), lr=SAMPLED.learning_rate),
            negative_sampler_kwargs={"num_negs_per_pos": 32},
        )  # fmt: skip
        return loop.train(
            triples_factory=factory, num_epochs=1, batch_size=512, use_tqdm=False,
            use_tqdm_batch=False,
        )  # fmt: skip

    together = TrainingConfig(**{**vars(SAMPLED), "share_negatives": True})
    ours, theirs, shared = in_turn([run_ours(SAMPLED), run_theirs, run_ours(together)],
                                   options.repeat)  # fmt: skip
    compared(
        "training", ours, theirs, equal=None, kind=kind, triples=len(part),
        kept_loss=round(ours.result.losses[0], 4), peer_loss=round(theirs.result[0], 4),
        shared_s=round(shared.processor, 2),
    )  # fmt: skip
    counts = three_sizes(len(part))
    parts = in_turn([run_ours(SAMPLED, n) for n in counts[:2]], options.repeat)
    growth("training", "triples", counts, [spent.processor for spent in (*parts, ours)], kind=kind)


def complex_product(first: Tensor, second: Tensor, conjugate: bool = False) -> Tensor:
    """Of `[real, imaginary]` vectors; of the first with the conjugate of the second."""
    (a, b), (c, d) = first.chunk(2, -1), second.chunk(2, -1)
    d = -d if conjugate else d
    return torch.cat([a * c - b * d, a * d + b * c], -1)


def plain_scores(kind: str, side: str, known: Tensor, relation: Tensor, every: Tensor) -> Tensor:
    """Scores of all candidates for one side, `[batch candidate]`."""
    if kind.startswith("TransE"):
        return -torch.cdist(known + relation if side == "tail" else known - relation, every)
    if kind == "DistMult":
        return known * relation @ every.T
    if kind == "ComplEx":
        return complex_product(known, relation, side == "head") @ every.T
    turns = torch.cat([relation.cos(), relation.sin()], -1)
    return -torch.cdist(complex_product(known, turns, side == "head"), every)


def rank_plainly(kind: str, scorer: Scorer, splits: Splits) -> tuple[Tensor, Tensor]:
    """Numbers of competitors above and tied with each answer, heads first."""
    entities, relations = scorer.entities.detach(), scorer.relations.detach()
    above, tied = [], []
    for side, slot in (("head", 0), ("tail", 2)):
        known = defaultdict(list)
        for part in splits.values():
            for row in part.tolist():
                known[row[2 - slot], row[1]].append(row[slot])
        for batch in torch.from_numpy(splits["test"]).split(256):
            anchors, relation_ids, gold = batch[:, 2 - slot], batch[:, 1], batch[:, slot, None]
            scores = plain_scores(kind, side, entities[anchors], relations[relation_ids], entities)
            golds = scores.gather(1, gold)
            columns = [known[pair] for pair in map(tuple, batch[:, [2 - slot, 1]].tolist())]
            counts = torch.tensor([len(some) for some in columns])
            rows = torch.arange(len(batch)).repeat_interleave(counts)
            scores[rows, torch.tensor([one for some in columns for one in some])] = -torch.inf
            above.append((scores > golds).sum(1))
            tied.append((scores == golds).sum(1))
    return torch.cat(above), torch.cat(tied)


def compare_plain_ranking(kind: str, sizes: dict[str, int], splits: Splits, options: Any) -> None:
    scorer = fresh(kind, sizes)
    train(scorer, splits["train"], config=SHORT, generator=torch.Generator().manual_seed(1))
    entities, n = scorer.entities.detach(), len(splits["test"])
    out = torch.empty(256, len(entities))

    def products_alone() -> None:
        for _ in range(2 * -(-n // 256)):
            torch.mm(entities[:256], entities.T, out=out)

    ours, theirs, floor = in_turn(
        [lambda: rank_ours(scorer, splits, splits["test"], 16 << 20),
         lambda: rank_plainly(kind, scorer, splits), products_alone], options.repeat,
    )  # fmt: skip
    above, tied = (part.numpy() for part in theirs.result)
    ranks = 1 + above + tied / 2
    if not np.isclose(ours.result.mrr, (1 / ranks).mean(), rtol=1e-3):  # near ties: cdist rounds
        raise SystemExit(f"{kind}: MRR is {ours.result.mrr}, plain torch's {(1 / ranks).mean()}")
    compared(
        "plain ranking", ours, theirs, equal=True, kind=kind, triples=n,
        same_ranks=round(float((ours.result.ranks == ranks).mean()), 5),
        floor_s=round(floor.processor, 2), of_floor=round(ours.processor / floor.processor, 2),
    )  # fmt: skip


def train_plainly(kind: str, start: Scorer, part: np.ndarray, *, fused: bool) -> float:
    """One epoch with shared negatives; the mean loss. Draws are those of `train`."""
    entities, relations = (
        torch.nn.Parameter(table.detach()) for table in (start.entities, start.relations)
    )
    optimiser = torch.optim.Adam([entities, relations], lr=SAMPLED.learning_rate, fused=fused)
    draws, triples, total = torch.Generator().manual_seed(1), torch.from_numpy(part), 0.0
    for rows in torch.randperm(len(triples), generator=draws).split(SAMPLED.batch_size):
        head, relation, tail = triples[rows].unbind(1)
        is_tail = torch.rand(len(rows), generator=draws) < 0.5
        negatives = [torch.randint(len(entities), (32,), generator=draws) for _ in range(2)]
        heads, types, tails = entities[head], relations[relation], entities[tail]
        losses = []
        for side, mine, sampled in zip(("head", "tail"), (~is_tail, is_tail), negatives,
                                       strict=True):  # fmt: skip
            known = (tails if side == "head" else heads)[mine]
            against = plain_scores(kind, side, known, types[mine], entities[sampled])
            positive = start.score(heads[mine], types[mine], tails[mine])
            losses.append((SAMPLED.margin - positive[:, None] + against).relu().mean(1))
        loss = torch.cat(losses).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        total += loss.item() * len(rows)
    return total / len(triples)


def compare_plain_training(kind: str, sizes: dict[str, int], splits: Splits, options: Any) -> None:
    order = np.random.default_rng(0).permutation(len(splits["train"]))
    part, draws = splits["train"][order[: options.trained]], torch.Generator()
    config = TrainingConfig(**{**vars(SAMPLED), "share_negatives": True})
    ours, theirs, fused = in_turn(
        [lambda: train(fresh(kind, sizes), part, config=config, generator=draws.manual_seed(1)),
         lambda: train_plainly(kind, fresh(kind, sizes), part, fused=False),
         lambda: train_plainly(kind, fresh(kind, sizes), part, fused=True)], options.repeat + 1,
    )  # fmt: skip
    if not np.isclose(ours.result.losses[0], theirs.result, rtol=1e-5):
        raise SystemExit(f"{kind}: loss is {ours.result.losses[0]}, plain torch's {theirs.result}")
    compared(
        "plain training", ours, theirs, equal=True, kind=kind, triples=len(part),
        kept_loss=round(ours.result.losses[0], 6), peer_loss=round(theirs.result, 6),
        fused_s=round(fused.processor, 3),
        times_fused=round(fused.processor / ours.processor, 2),
    )  # fmt: skip


def compare_ultra_step(options: Any) -> None:
    """Of 32 questions with 33 candidates each; only where WN18RR_v1 is at hand."""
    root = os.environ.get("KEPT_DATA")
    if not root:
        return
    split = read_grail(Path(root), "WN18RR_v1")
    n_entities, n_relations = split.train.n_entities, split.graph.n_relations
    edges = Edges.of(split.train.context, n_entities=n_entities, n_relations=n_relations)
    plain = replace(edges, weights=torch.ones(len(edges.types)))  # the path of any messages
    between = relation_graph(edges)
    model, draws = make_ultra(width=32), torch.Generator().manual_seed(0)
    batch = torch.as_tensor(split.train.context[:32]).long()
    candidates = torch.randint(n_entities, (32, 33), generator=draws)

    def step(graph: Edges) -> list[Tensor]:
        model.zero_grad()
        is_head = torch.arange(32) >= 16
        anchors = torch.where(is_head, batch[:, 2], batch[:, 0])
        scores = model(graph, between, anchors, batch[:, 1], is_head, candidates)
        ultra_loss(scores, 1.0).mean().backward()
        return [weight.grad.clone() for weight in model.parameters() if weight.grad is not None]

    def run_ours() -> list[Tensor]:  # a new graph each time, as in training
        return step(edges.only(torch.ones(len(edges.types), dtype=torch.bool)))

    ours, theirs = in_turn([run_ours, lambda: step(plain)], options.repeat + 1)
    for mine, other in zip(ours.result, theirs.result, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-5)
    compared("ultra step", ours, theirs, equal=True, graph="WN18RR_v1", entities=n_entities)


def show_memory(sizes: dict[str, int], splits: Splits) -> None:
    """How far resident memory rises above where it stood, where the system can forget its peak."""
    status, forget = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not forget.exists():
        return
    scorer = fresh("ComplEx", sizes)
    for budget in (1 << 20, 4 << 20, 16 << 20):
        forget.write_text("5")
        rank_ours(scorer, splits, splits["test"][:600], budget)
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        peak, now = (int(lines[name].split()[0]) / 1024 for name in ("VmHWM", "VmRSS"))
        write_line(row="memory of ranking", budget_mib=budget >> 20, before_mib=round(now),
             peak_mib=round(peak))  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--kinds", default=",".join(KINDS), help="as printed, by commas")
    parser.add_argument("--only", choices=["ranking", "training", "plain"])
    parser.add_argument("--quick", action="store_true", help="CoDEx-S and fewer triples of PyKEEN")
    parser.add_argument("--trained", type=int, help="triples (default: 20,480; quick: 5,120)")
    options = parser.parse_args()
    options.few, options.many, options.batch_size = (16, 208, 16) if options.quick else (16, 80, 16)
    options.trained = options.trained or (5_120 if options.quick else 20_480)
    torch.set_num_threads(options.threads)
    logging.disable(logging.WARNING)
    name, sizes, splits = load(options.quick)
    counts = ", ".join(f"{len(rows)} {part}" for part, rows in splits.items())
    print(f"{name}: {sizes['n_entities']} entities, {counts}; {options.threads} thread(s)")
    show_memory(sizes, splits)
    kinds = options.kinds.split(",")
    trained = [kind for kind in TRAINED if kind in kinds]
    if options.only == "plain" or not is_missing("pykeen", row="ranking, training"):
        for kind in kinds if options.only in (None, "ranking") else []:
            compare_ranking(kind, sizes, splits, options)
        for kind in trained if options.only in (None, "training") else []:
            compare_training(kind, sizes, splits, options)
    for kind in trained if options.only in (None, "plain") else []:
        compare_plain_ranking(kind, sizes, splits, options)
        compare_plain_training(kind, sizes, splits, options)
    if options.only in (None, "plain"):
        compare_ultra_step(options)


if __name__ == "__main__":
    main()
