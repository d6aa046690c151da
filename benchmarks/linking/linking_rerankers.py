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
import csv
import gzip
import hashlib
import io
import json
import os
import tarfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from entity_linking import Candidate, DictionaryLinker, LinkedText, read_trex, read_wiki80
from entity_linking.names.priors import LABELS_FIRST
from entity_linking.parts import Scores
from entity_linking.scorers.context_words import words_of
from entity_linking.scorers.features import TypeScorer
from entity_linking.scorers.mix import DEFAULT_WEIGHTS, Normalisation, default_scorers, normalised
from entity_linking.scorers.rerank_parts import RerankSettings
from entity_linking.scorers.rerank_table import RerankTable, tabulate, targets
from entity_linking.scorers.reranker import fit_tables, relative_logits, split_by_text, with_gold
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from kg_loaders.damage import DamageReport
from kg_loaders.reading.lines import read_lines

MAX_CANDIDATES = 30


def draw(*key: str) -> float:
    """A number in [0, 1) from a hash."""
    digest = hashlib.sha256("\n".join(key).encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


# ---- texts -----------------------------------------------------------------
def merged(examples: Iterable[Any], n_texts: int) -> list[LinkedText]:
    """One text with all links that examples put into it; overlaps keep the first."""
    links: dict[str, dict[tuple[int, int], Any]] = {}
    for example in examples:
        mine = links.setdefault(example.linked.text, {})
        for link in example.linked.links:
            span = (link.mention.start, link.mention.end)
            if all(span[1] <= a or b <= span[0] for a, b in mine):
                mine[span] = link
    chosen = sorted(links, key=lambda text: draw("text", text))[:n_texts]
    return [
        LinkedText(text, tuple(links[text][span] for span in sorted(links[text])), str(i))
        for i, text in enumerate(chosen)
    ]


def gold_of(text: LinkedText) -> list[str]:
    return [link.entity for link in text.links if link.entity is not None]


# ---- graph -----------------------------------------------------------------
def rows(path: Path) -> Iterator[list[str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        yield from csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)


def facts(data: Path) -> Iterator[tuple[str, str, str]]:
    for part in ("train", "valid", "test"):
        found = data / f"codex/codex-m/{part}.txt"
        path = found if found.exists() else found.with_suffix(".txt.gz")
        for _, _, raw in read_lines(path, DamageReport()):
            head, relation, tail = raw.decode().split("\t")
            yield head, relation, tail
    for path in sorted((data / "lama/TREx").glob("P*.jsonl.gz")):
        with gzip.open(path, "rt") as file:
            for row in map(json.loads, file):
                yield row["sub_uri"], row["predicate_id"], row["obj_uri"]
    with tarfile.open(data / "lama/lpaqa_TREx_train.tar.gz") as tar:
        for member in sorted(tar.getnames()):
            if member.endswith(".jsonl"):
                file = io.TextIOWrapper(tar.extractfile(member), "utf-8")  # type: ignore[arg-type]
                for row in map(json.loads, file):
                    yield row["sub_uri"], Path(member).stem, row["obj_uri"]


def build_graph(data: Path, stated: set[tuple[str, str]]) -> KnowledgeGraph:
    labels = {q: label for q, label, *_ in rows(data / "wikidata_labels/qid_labels.tsv.gz")}
    labels = {q: label for q, label in labels.items() if q[:1] == "Q" and draw("in", q) >= 0.1}
    records: list[Any] = [Text(q, TextKind.LABEL, label, "en") for q, label in labels.items()]
    aliases = rows(data / "wikidata_labels/qid_aliases.tsv.gz")
    records += [Text(q, TextKind.ALIAS, a, "en") for q, a, *_ in aliases if q in labels]
    with gzip.open(data / "wikidata_labels/fb_entity2wikidata.json.gz", "rt") as file:
        for row in json.load(file).values():
            q, about = row["wikidata_id"], row.get("description")
            if q in labels and about:
                records.append(Text(q, TextKind.DESCRIPTION, about, "en"))
    with gzip.open(data / "codex/types_en.json.gz", "rt") as file:
        types = {q: row["label"] for q, row in json.load(file).items()}
    with gzip.open(data / "codex/entity2types.json.gz", "rt") as file:
        for q, kinds in json.load(file).items():
            if q in labels:
                records += [Text(q, TextKind.TYPE, types.get(k, k), "en") for k in kinds]
    for head, relation, tail in facts(data):
        hidden = (head, tail) in stated and draw("stated", *sorted((head, tail))) < 0.5
        if head in labels and tail in labels and not hidden:
            records.append(Triple(head, relation, tail))
    return graph_from_records(records, licence="see the sources")


class Confusable:
    """The dictionary's candidates, then entities whose label holds all words of the mention."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self._dictionary = DictionaryLinker(
            graph, max_candidates=MAX_CANDIDATES, exact=True, formula=LABELS_FIRST
        )
        self._names = graph.entities
        degree = np.diff(graph.out_offsets) + np.diff(graph.in_offsets)
        labels = [graph.label(entity) for entity in range(graph.n_entities)]
        words = words_of(labels)
        self._bearers: dict[str, list[int]] = defaultdict(list)
        for word, entity in zip(words.values, words.text_of.tolist(), strict=True):
            self._bearers[word].append(entity)
        for bearers in self._bearers.values():
            bearers.sort(key=lambda entity: (-degree[entity], entity))

    def propose(self, texts: Sequence[LinkedText]) -> list[LinkedText]:
        known: dict[str, tuple[Candidate, ...]] = {}
        proposed = []
        for text in self._dictionary.disambiguate(texts):
            links = []
            for link in text.links:
                surface = text.text[link.mention.start : link.mention.end]
                if surface not in known:
                    known[surface] = self._widened(surface, link.candidates)
                links.append(replace(link, candidates=known[surface]))
            proposed.append(replace(text, links=tuple(links)))
        return proposed

    def _widened(self, surface: str, exact: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
        """A name that is only part of a label weighs a tenth of an alias."""
        lists = [self._bearers.get(word, []) for word in dict.fromkeys(words_of([surface]).values)]
        lists.sort(key=len)
        others = [set(found) for found in lists[1:]]
        taken = {candidate.entity for candidate in exact}
        more = []
        for entity in lists[0] if lists else []:
            if len(more) + len(exact) == MAX_CANDIDATES:
                break
            name = self._names.name(entity)
            if name not in taken and all(entity in other for other in others):
                taken.add(name)
                more.append(name)
        weights = [10 * c.prior for c in exact] + [0.1] * len(more)
        entities = [c.entity for c in exact] + more
        total = sum(weights)
        return tuple(
            Candidate(entity, weight / total, weight / total)
            for entity, weight in zip(entities, weights, strict=True)
        )


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
        self, name: str, texts: list[LinkedText], table: RerankTable, asked: list[str | None]
    ) -> None:
        self.name, self.texts, self.table = name, texts, table
        self.weights = entity_weights([q if q and is_test(q) else None for q in asked])
        self.counts = self.weights > 0
        self.gold = targets(table.rows, absent="nil")
        links = [link for text in texts for link in text.links]
        self.has_gold = np.array([link.entity is not None for link in links]) & self.counts
        self.several = self.has_gold & (table.rows.sizes > 1) & (self.gold >= 0)

        self.entities = np.unique([q or "" for q in asked], return_inverse=True)[1]

    def mean(self, values: Scores, where: Scores) -> float:
        return float(np.average(values[where], weights=self.weights[where]))

    def shown(self, values: Scores, where: Scores) -> str:
        """The mean and its 95 % interval, entities drawn again 1000 times."""
        parts = [
            np.bincount(self.entities[where], (self.weights * v)[where])
            for v in (values, np.ones(len(values)))
        ]
        above, below = (part[np.unique(self.entities[where])] for part in parts)
        drawn = np.random.default_rng(0).integers(len(above), size=(1000, len(above)))
        low, high = np.quantile(above[drawn].sum(1) / below[drawn].sum(1), [0.025, 0.975])
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
        shown = [self.shown(right, where) for where in (self.has_gold, self.several)]
        text = f"  {self.name:6} {name:20} in the graph {shown[0]}  beside others {shown[1]}"
        if not nil:
            return text
        says_nil = (rows.best(scores) <= 0) & self.counts
        is_nil = self.counts & ~self.has_gold
        all_right = np.where(self.has_gold, right & ~says_nil, says_nil)
        precision = self.mean(is_nil, says_nil) if says_nil.any() else 0.0
        return (
            f"{text}  with NIL {self.shown(all_right, self.counts)}  NIL p {precision:.3f} "
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
        found = with_gold(source.propose(gold), in_graph(gold, graph))
        is_held = [any(is_test(q) for q in gold_of(text)) for text in gold]
        texts = [text for text, held in zip(found, is_held, strict=True) if held]
        asked = [k.entity for t, held in zip(gold, is_held, strict=True) if held for k in t.links]
        tests.append(Test(name, texts, tabulate(scorers, texts), asked))
        others.append([text for text, held in zip(found, is_held, strict=True) if not held])
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
        shown = zip(table.scorers, weights.tolist(), strict=True)
        print(f"weights on {name}, {kind}:", ", ".join(f"{n} {w:.2f}" for n, w in shown))
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
