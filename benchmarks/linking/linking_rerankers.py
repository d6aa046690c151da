"""Disambiguation by the prior, by `default_mix` and by trained re-rankers, on held-out entities.

    KEPT_DATA=... python benchmarks/linking/linking_rerankers.py \
        [--texts 20000] [--seeds 3] [--weights]

The graph has Wikidata's labels and aliases (169,679 entities), the triples of CoDEx-M and
the facts of T-REx (LAMA) and LPAQA, descriptions and types where there are any. Two things make it
harder than it is: of the pairs of entities that an annotated text links, half (by hash) lose all
their triples, so the graph does not answer for the text; every tenth entity (by hash) is left out
of the graph, so its mentions are NIL. Candidates are those of the dictionary and up to 30
confusable ones whose label holds all words of the mention.

An entity is a test entity by hash, one in five. Texts with a test entity among their gold ones are
test texts, and of them only mentions of test entities count; the others train, one in ten held out.
Figures are means over entities of their mentions' share, so that no country decides. Ties go to the
better prior, so "neighbour alone" is the prior where no neighbour is mentioned. Wiki80 trains
no re-ranker. `--weights` fits the weights of a mix (conditional logit, entities weighing alike) on
the training part of T-REx and on the Wiki80 texts without test entities: `DEFAULT_WEIGHTS` are
their rounded middle.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from confusable import Confusable, build_graph, draw, gold_of, merged

from entity_linking import LinkedText, read_trex, read_wiki80
from entity_linking.parts import Scores
from entity_linking.scorers.features import TypeScorer
from entity_linking.scorers.mix import DEFAULT_WEIGHTS, Normalisation, default_scorers, normalised
from entity_linking.scorers.rerank_logits import relative_logits
from entity_linking.scorers.rerank_parts import RerankSettings
from entity_linking.scorers.rerank_table import RerankTable, tabulate, targets
from entity_linking.scorers.reranker import fit_tables, split_by_text, with_gold
from kg_loaders import KnowledgeGraph
from kg_loaders.damage import DamageReport


# ---- measurement -----------------------------------------------------------
def is_test(entity: str) -> bool:
    return draw("test", entity) < 0.2


def in_graph(texts: Sequence[LinkedText], graph: KnowledgeGraph) -> list[LinkedText]:
    """Gold entities that the graph does not have are NIL."""
    golds = sorted({q for text in texts for q in gold_of(text)})
    known = dict(zip(golds, (graph.entities.ids(golds) >= 0).tolist(), strict=True))
    return [
        replace(
            text,
            links=tuple(
                link if link.entity and known[link.entity] else replace(link, entity=None)
                for link in text.links
            ),
        )
        for text in texts
    ]


class Test:
    """Mentions that count, and what became of them; `asked` are entities as the text means them."""

    def __init__(
        self,
        name: str,
        texts: list[LinkedText],
        table: RerankTable,
        gold_entities: list[str | None],
    ) -> None:
        self.name, self.texts, self.table = name, texts, table
        self.weights = entity_weights([q if q and is_test(q) else None for q in gold_entities])
        self.counts = self.weights > 0
        self.gold = targets(table.rows, absent="nil")
        links = [link for text in texts for link in text.links]
        self.has_gold = np.array([link.entity is not None for link in links]) & self.counts
        self.several = self.has_gold & (table.rows.sizes > 1) & (self.gold >= 0)

        self.entities = np.unique([q or "" for q in gold_entities], return_inverse=True)[1]

    def mean(self, values: Scores, where: Scores) -> float:
        return float(np.average(values[where], weights=self.weights[where]))

    def with_interval(self, values: Scores, where: Scores) -> str:
        """The mean and its 95 % interval, entities drawn again 1000 times."""
        parts = [
            np.bincount(self.entities[where], (self.weights * v)[where])
            for v in (values, np.ones(len(values)))
        ]
        above, below = (part[np.unique(self.entities[where])] for part in parts)
        sample = np.random.default_rng(0).integers(len(above), size=(1000, len(above)))
        low, high = np.quantile(above[sample].sum(1) / below[sample].sum(1), [0.025, 0.975])
        return f"{above.sum() / below.sum():.3f} [{low:.3f} {high:.3f}]"

    def describe(self) -> str:
        n_entities = self.weights.sum()
        return (
            f"{self.name}: {int(self.counts.sum())} mentions of {n_entities:.0f} entities, "
            f"{self.mean(self.has_gold, self.counts):.3f} in the graph, gold among the candidates "
            f"{self.mean(self.gold >= 0, self.has_gold):.3f}; {int(self.several.sum())} mentions "
            f"with gold beside others, {self.table.rows.sizes[self.several].mean():.1f} candidates"
        )

    def line(self, name: str, scores: Scores, *, nil: bool) -> str:
        rows = self.table.rows
        order = np.lexsort((-scores, rows.mention_of))
        first = np.minimum(rows.offsets[:-1], max(len(order) - 1, 0))
        top = np.where(rows.sizes > 0, order[first] - rows.offsets[:-1], -1)
        right = (top == self.gold) & (top >= 0)
        shares = [self.with_interval(right, where) for where in (self.has_gold, self.several)]
        text = f"  {self.name:6} {name:20} in the graph {shares[0]}  beside others {shares[1]}"
        if not nil:
            return text
        says_nil = (rows.best(scores) <= 0) & self.counts
        is_nil = self.counts & ~self.has_gold
        all_right = np.where(self.has_gold, right & ~says_nil, says_nil)
        precision = self.mean(is_nil, says_nil) if says_nil.any() else 0.0
        return (
            f"{text}  with NIL {self.with_interval(all_right, self.counts)}  NIL p {precision:.3f} "
            f"r {self.mean(says_nil, is_nil):.3f}"
        )


def entity_weights(entities: list[str | None]) -> Scores:
    """One over the mentions of the same entity; 0 for None."""
    n_mentions = Counter(entities)
    return np.array([0.0 if q is None else 1.0 / n_mentions[q] for q in entities])


def fitted_weights(
    table: RerankTable, columns: Scores, texts: list[LinkedText]
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """A conditional logit: mentions whose gold is among several candidates, entities alike."""
    import torch

    gold = targets(table.rows, absent="skip")
    chosen = np.flatnonzero((gold >= 0) & (table.rows.sizes > 1))
    links = [link.entity for text in texts for link in text.links]
    importance = torch.from_numpy(entity_weights([links[i] for i in chosen.tolist()]))
    mine = np.isin(table.rows.mention_of, chosen)
    segment = torch.from_numpy(np.searchsorted(chosen, table.rows.mention_of[mine]))
    features = torch.from_numpy(columns[mine])
    sizes = table.rows.sizes[chosen]
    right = torch.from_numpy(np.cumsum(sizes) - sizes + gold[chosen])
    weights = torch.zeros(columns.shape[1], dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([weights], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> Any:
        optimiser.zero_grad()
        logits = features @ weights
        top = torch.full((len(chosen),), -torch.inf, dtype=torch.float64)
        top = top.scatter_reduce(0, segment, logits.detach(), "amax")
        total = torch.zeros(len(chosen), dtype=torch.float64)
        total = total.index_add(0, segment, (logits - top[segment]).exp()).log() + top
        value = (importance * (total - logits[right])).sum() / importance.sum()
        value = value + 1e-4 * weights.square().sum()
        value.backward()
        return value

    optimiser.step(loss)
    return weights.detach().numpy()


def columns_of(table: RerankTable, normalisation: Normalisation = "none") -> Scores:
    """The scores of the scorers as a mix would add them up, weights left out."""
    raw = table.candidates[:, ::3]
    return np.stack([normalised(table.rows, column, normalisation) for column in raw.T], axis=1)


def say(text: str) -> None:
    print(f"[{time.process_time():6.1f} s] {text}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--texts", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--weights", action="store_true")
    options = parser.parse_args()
    data = Path(os.environ["KEPT_DATA"])
    trex = merged(read_trex(data / "lama/TREx", DamageReport(), distinct=True), options.texts)
    wiki = merged(read_wiki80(data / "re/wiki80/dev.txt.gz", DamageReport()), options.texts)
    say(f"{len(trex)} texts of T-REx, {len(wiki)} of Wiki80")
    stated = {(a, b) for text in [*trex, *wiki] for a in gold_of(text) for b in gold_of(text)}
    graph = build_graph(data, stated)
    source = Confusable(graph)
    say(f"{graph} and its dictionary")
    scorers = {**default_scorers(graph), "type": TypeScorer(graph)}
    say("scorers")
    tests, others = [], []
    for name, gold in (("T-REx", trex), ("Wiki80", wiki)):
        proposed = with_gold(source.propose(gold), in_graph(gold, graph))
        is_held = [any(is_test(q) for q in gold_of(text)) for text in gold]
        texts = [text for text, held in zip(proposed, is_held, strict=True) if held]
        gold_entities = [
            k.entity for t, held in zip(gold, is_held, strict=True) if held for k in t.links
        ]
        tests.append(Test(name, texts, tabulate(scorers, texts), gold_entities))
        others.append([text for text, held in zip(proposed, is_held, strict=True) if not held])
        say(f"candidates and features of {name}")
    train, held_out = split_by_text(others[0], share=0.1, seed=0)
    tables = tabulate(scorers, train), tabulate(scorers, held_out)
    say(f"training features of {tables[0].rows.n_mentions} mentions, {len(tables[0].rows)} rows")
    if options.weights:
        wiki_table = tabulate(scorers, others[1])
        report_weights({"T-REx": (tables[0], train), "Wiki80": (wiki_table, others[1])}, tests)
    report_parts(tests)
    report_trained(tables, tests, options.seeds)
    for left_out in scorers:
        # type is in none of the others
        left = {"type", left_out} if left_out != "type" else set()
        say("with type too" if left_out == "type" else f"without {left_out}")
        report_without(left, tables, tests)


def without(table: RerankTable, names: set[str]) -> RerankTable:
    for name in sorted(names):
        table = table.without(name)
    return table


def report_weights(
    parts: dict[str, tuple[RerankTable, list[LinkedText]]], tests: list[Test]
) -> None:
    kinds: tuple[Normalisation, ...] = ("none", "z")
    for kind, (name, (table, texts)) in product(kinds, parts.items()):
        weights = fitted_weights(table, columns_of(table, kind), texts)
        by_scorer = zip(table.scorers, weights.tolist(), strict=True)
        print(f"weights on {name}, {kind}:", ", ".join(f"{n} {w:.2f}" for n, w in by_scorer))
        for test in tests:
            print(test.line("so weighted", columns_of(test.table, kind) @ weights, nil=False))


def report_parts(tests: list[Test]) -> None:
    for test in tests:
        print(test.describe())
        raw = columns_of(test.table)
        for name, column in zip(test.table.scorers, raw.T, strict=True):
            print(test.line(f"{name} alone", column, nil=False))
        weights = np.array([DEFAULT_WEIGHTS.get(name, 0.0) for name in test.table.scorers])
        mix = raw @ weights
        print(test.line("mix", mix, nil=False))
        print(test.line("mix, NIL if no other", mix - mix.min() + 1.0, nil=True))


def report_trained(
    tables: tuple[RerankTable, RerankTable], tests: list[Test], n_seeds: int
) -> None:
    train, held_out = (without(table, {"type"}) for table in tables)
    for hidden, seed in product((0, 16), range(n_seeds)):
        start = time.process_time()
        weights, record = fit_tables(train, held_out, RerankSettings(seed=seed, hidden=hidden))
        took = time.process_time() - start
        say(
            f"hidden {hidden}, seed {seed}: {took:.1f} CPU seconds, {record.n_mentions} mentions "
            f"({record.n_nil} NIL), best epoch {record.best_epoch}, held-out loss "
            f"{record.held_out_loss:.4f}"
        )
        for test in tests:
            logits = relative_logits(weights, test.table.without("type"))
            print(test.line(f"hidden {hidden}, seed {seed}", logits, nil=True))


def report_without(
    left: set[str], tables: tuple[RerankTable, RerankTable], tests: list[Test]
) -> None:
    train, held_out = (without(table, left) for table in tables)
    weights, _ = fit_tables(train, held_out, RerankSettings())
    for test in tests:
        table = without(test.table, left)
        print(test.line("log-linear, seed 0", relative_logits(weights, table), nil=True))


if __name__ == "__main__":
    main()
