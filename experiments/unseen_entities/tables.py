"""From stored ranks to the page: scores and differences over splits and seeds, and slices.

A score of a split is the mean over its seeds, whose variance is that of seeds and of held-out
entities (`kept.evaluation.crossed`). Over splits the variance is that of the splits' scores, or the
mean of their own variances where that is larger; with three splits an interval is 4.3 standard
errors wide to each side.

Axis legend: split, seed, question, cluster (the questions about one held-out entity).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kept.evaluation.crossed import Effect, difference, effect
from kept.evaluation.paired import accuracy_counts, f1_value
from kept.lab.study.cells import page_of
from kept.lab.study.tables import Table, with_interval

QUESTIONS = "questions-"
CELL = re.compile(r"(?P<graph>.+)-(?P<split>\d+)-(?P<seed>\d+)")
Values = NDArray[np.float64]
Mask = NDArray[np.bool_]
MaskOf = Callable[["SplitResults"], Mask]
"""Which questions of a split are in a slice."""
TITLES = {"codex-s": "CoDEx-S", "fb15k-237": "FB15k-237", "wn18rr": "WN18RR"}
TEXT, PATHS, MIX = "text", "ULTRA + NBFNet", "text + paths"
PARTS = (TEXT, "ULTRA", "NBFNet")
"""What the mix weighs."""
ROWS = (
    "degree", "PageRank", TEXT, "ULTRA", "NBFNet", PATHS, "text + ULTRA", "text + NBFNet", MIX,
)  # fmt: skip
CONTROLS = (
    "text (another) + paths", "text (another) + paths, weights of the true",
    "text (shuffled) + paths", "text (words) + paths", "text (cut) + paths",
    "text (cut) + paths, weights of the true", "text + paths, facts withheld",
    "paths, facts withheld", "text (another)", "text (shuffled)", "text (words)", "text (cut)",
)  # fmt: skip
SAYS = {
    TEXT: "SimKGC: names and descriptions",
    PATHS: "both path networks, mixed: no text",
    MIX: "all three, weights fitted on validation",
    "text (another) + paths": "each unseen entity has another one's text",
    "text (another) + paths, weights of the true": "the same, with the weights of the mix",
    "text (shuffled) + paths": "texts of all entities shuffled",
    "text (words) + paths": "the words of each description in a random order",
    "text (cut) + paths": "no name of a neighbour in any description",
    "text (cut) + paths, weights of the true": "the same, with the weights of the mix",
    "text + paths, facts withheld": "no fact of the unseen entity may be read",
}
DIFFERENCES = (
    (MIX, TEXT), (MIX, PATHS), (MIX, "ULTRA"), (MIX, "NBFNet"),
    ("text (another) + paths", PATHS), ("text (another) + paths, weights of the true", PATHS),
    ("text (shuffled) + paths", PATHS), ("text (cut) + paths", PATHS), ("text (cut) + paths", MIX),
    ("text (words) + paths", MIX), ("text + paths, facts withheld", TEXT),
    (MIX, "text + paths, facts withheld"),
)  # fmt: skip
FEW = (1, 4)
"""As in `cells`: so many facts are read in rows of their own."""
FACTS = ((0, 0), (1, 1), (2, 2), (3, 5), (6, 10), (11, 20), (21, 50), (51, 1 << 16))
LEAST = 40
"""Questions below which a slice is not in a table."""
N_RELATIONS = 6


@dataclass(frozen=True, eq=False)
class SplitResults:
    """A split's questions, and twice the ranks `[seed question]` of every row."""

    questions: dict[str, NDArray]  # type: ignore[type-arg]
    ranks: dict[str, NDArray[np.uint32]]
    seeds: tuple[int, ...]

    @property
    def first(self) -> SplitResults:
        """The results of the first seed alone."""
        ranks = {row: ranks[:1] for row, ranks in self.ranks.items()}
        return SplitResults(self.questions, ranks, self.seeds[:1])

    def reciprocal(self, row: str) -> Values:
        """Return reciprocal ranks `[seed question]`."""
        return np.asarray(2 / self.ranks[row].astype(np.float64))

    def counts(self, row: str, mask: Mask) -> Values:
        """Return the counts of a row `[seed cluster count]`."""
        clusters = self.questions["unseen"][mask].tolist()
        return np.stack(
            [
                accuracy_counts(reciprocal_ranks[mask], clusters)
                for reciprocal_ranks in self.reciprocal(row)
            ]
        )

    def hits(self, row: str, k: int) -> float:
        """Return the share of answers among the first `k`."""
        return float((self.ranks[row] <= 2 * k).mean())

    def score(self, row: str, mask: Mask) -> Effect:
        """Return the MRR of a row over seeds and entities."""
        return effect(self.counts(row, mask), f1_value)

    def gain(self, ours: str, theirs: str, mask: Mask) -> Effect:
        """Return the difference of two rows, paired by seed and question."""
        left, right = ([*self.counts(row, mask)] for row in (ours, theirs))
        n = min(len(left), len(right))
        return difference(left[:n], right[:n], f1_value)


@dataclass(frozen=True, eq=False)
class Results:
    """What is stored, by graph and split; `relations`: their names by graph."""

    splits: dict[str, list[SplitResults]]
    relations: dict[str, list[str]]
    notes: dict[str, dict[str, object]]

    @classmethod
    def read(cls, folder: Path) -> Results:
        """Read the cells that are there; some rows are of the first seed alone."""
        cells: dict[tuple[str, int], dict[int, dict[str, NDArray]]] = {}  # type: ignore[type-arg]
        notes = {}
        for path in sorted(folder.glob("*.npz")):
            name = CELL.fullmatch(path.stem)
            if name is None or path.stem.startswith(QUESTIONS):
                continue
            with np.load(path) as stored:
                arrays = {row: stored[row] for row in stored.files}
            notes[path.stem] = json.loads(str(arrays.pop("origin")))
            cells.setdefault((name["graph"], int(name["split"])), {})[int(name["seed"])] = arrays
        splits: dict[str, list[SplitResults]] = {}
        for (graph, split), seeds in sorted(cells.items()):
            with np.load(folder / f"{QUESTIONS}{graph}-{split}.npz") as stored:
                questions = {name: stored[name] for name in stored.files}
            alone = {name: questions.pop(name)[None] for name in ("degree", "PageRank")}
            of_seed = [seeds[seed] for seed in sorted(seeds)]
            ranks = {
                row: np.stack([arrays[row] for arrays in of_seed if row in arrays])
                for row in of_seed[0]
            }
            results = SplitResults(questions, alone | ranks, tuple(sorted(seeds)))
            splits.setdefault(graph, []).append(results)
        relations = json.loads((folder / "relations.json").read_text(encoding="utf-8"))
        return cls(splits, relations, notes)

    @cached_property
    def graphs(self) -> tuple[str, ...]:
        """The graphs in the order of the page."""
        return tuple(graph for graph in TITLES if graph in self.splits)

    def score(self, graph: str, row: str, mask: MaskOf) -> Effect:
        """Return the MRR of a row over splits and seeds."""
        return over_splits([s.score(row, mask(s)) for s in self.splits[graph]])

    def gain(self, graph: str, ours: str, theirs: str, mask: MaskOf) -> Effect:
        """Return the difference of two rows over splits and seeds."""
        return over_splits([s.gain(ours, theirs, mask(s)) for s in self.splits[graph]])


def everything(split: SplitResults) -> Mask:
    """Return a mask of all questions."""
    return np.ones(len(split.questions["unseen"]), np.bool_)


def over_splits(effects: Sequence[Effect]) -> Effect:
    """Return the mean of the effects of splits, with the variance of splits.

    Hartung and Knapp's interval with Röver's floor (2015): by Student's t of the splits, with a
    standard error not below that within splits.

    >>> one = [Effect(x, 0.0001, 0.0003, 3, 200) for x in (0.1, 0.12, 0.14)]
    >>> mean = over_splits(one)
    >>> round(mean.estimate, 3), round(mean.standard_error, 4), mean.n_seeds
    (0.12, 0.0115, 3)
    """
    if len(effects) == 1:
        return effects[0]
    estimates = np.array([each.estimate for each in effects])
    n = len(effects)
    between = float(estimates.var(ddof=1))
    within = float(np.mean([each.standard_error**2 for each in effects]))
    n_items = sum(each.n_items for each in effects)
    return Effect(float(estimates.mean()), max(between, within) / n, 0.0, n, n_items)


# ---- the page ------------------------------------------------------------------------------------
COMMAND = (
    "python -m experiments unseen_entities experiments/unseen_entities/study.yaml "
    "-o runs/unseen --page"
)


def page(results: Results) -> str:
    """Return the page of all graphs."""
    return page_of(
        "Unseen entities: text and graph together", COMMAND,
        _about(results), "## Text, paths and both", _with_hits(results),
        "## Both against the best of its parts", _headline(results),
        "## Differences", _differences(results), "## Controls", _scores(results, CONTROLS),
        "## With fewer facts", _by_most_facts(results),
        "## By the number of facts that may be read", *_by_facts(results),
        "## By what is unseen", *_by(results, "query", SIDES),
        "## By whether a fact joins the two entities", JOINED_SAYS,
        *_by(results, "pair", JOINED),
        "## By relation", *_by_relation(results),
        "## By split and seed", _by_split(results), "## Weights of the mix", _weights(results),
    )  # fmt: skip


def _about(results: Results) -> str:
    sizes = []
    for graph in results.graphs:
        splits = results.splits[graph]
        n = sum(len(split.questions["unseen"]) for split in splits)
        entities = sum(len(np.unique(split.questions["unseen"])) for split in splits)
        seeds = sorted({len(split.seeds) for split in splits})
        several = f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"{seeds[0]}"
        sizes.append(
            f"{TITLES[graph]}: {len(splits)} splits with {several} seeds, {n} questions about "
            f"{entities} unseen entities"
        )
    return (
        "MRR (filtered, among all entities, ties at their mean place), 95 % intervals over splits "
        f"and seeds. {'. '.join(sizes)}. A row with *facts withheld* or *at most* is of the first "
        "seed, and so is a difference from it."
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    return Table(head, rows).compact()


def _score(results: Results, graph: str, row: str) -> str:
    has_row = all(row in split.ranks for split in results.splits[graph])
    return with_interval(results.score(graph, row, everything)) if has_row else "—"


def _scores(results: Results, rows: Sequence[str]) -> str:
    cells = [
        [row, *(_score(results, graph, row) for graph in results.graphs), SAYS.get(row, "")]
        for row in rows
    ]
    return _table(("row", *(TITLES[graph] for graph in results.graphs), "what it reads"), cells)


def _with_hits(results: Results) -> str:
    """Return MRR, Hits@1 and Hits@10; the latter two are means over splits of means over seeds."""
    rows = []
    for row in ROWS:
        cells = [row]
        for graph in results.graphs:
            hits = (np.mean([s.hits(row, k) for s in results.splits[graph]]) for k in (1, 10))
            cells += [_score(results, graph, row), *(f"{share:.3f}" for share in hits)]
        rows.append([*cells, SAYS.get(row, "")])
    head = [
        f"{TITLES[graph]} {metric}".strip()
        for graph in results.graphs
        for metric in ("MRR", "Hits@1", "Hits@10")
    ]
    return _table(("row", *head, "what it reads"), rows)


def better_part(results: Results, graph: str) -> str:
    """Return the part of the mix that is best on the test itself."""
    return max(PARTS, key=lambda row: results.score(graph, row, everything).estimate)


def _headline(results: Results) -> str:
    rows = []
    for graph in results.graphs:
        best = better_part(results, graph)
        gain, over_paths = (results.gain(graph, MIX, row, everything) for row in (best, PATHS))
        rows.append([
            TITLES[graph], best, _score(results, graph, best), _score(results, graph, MIX),
            with_interval(gain, "+"), f"{gain.p:.4f}", f"{gain.visible():.3f}",
            with_interval(over_paths, "+"), f"{over_paths.p:.4f}",
        ])  # fmt: skip
    head = (
        "graph", "the best part", "its MRR", "the mix", "gain", "p", "not visible below",
        f"gain over {PATHS}", "p",
    )  # fmt: skip
    says = (
        f"The best part is the best of {', '.join(PARTS)} on the test itself. {PATHS} is a mix of "
        "two of them: the gain over it is that of the text alone."
    )
    return f"{says}\n\n{_table(head, rows)}"


def _by_most_facts(results: Results) -> str:
    """Return the scores where fewer facts of each unseen entity may be read."""
    rows = []
    for graph in results.graphs:
        first = replace(results, splits={graph: [s.first for s in results.splits[graph]]})
        rows.append([TITLES[graph], "none", _score(first, graph, TEXT),
                     _score(first, graph, "paths, facts withheld"),
                     _score(first, graph, "text + paths, facts withheld")])  # fmt: skip
        for n in FEW:
            names = (TEXT, f"paths, at most {n}", f"text + paths, at most {n}")
            rows.append([TITLES[graph], str(n), *(_score(first, graph, name) for name in names)])
        rows.append([TITLES[graph], "all",
                     *(_score(first, graph, name) for name in (TEXT, PATHS, MIX))])  # fmt: skip
    says = (
        "Facts of each unseen entity beyond that number are withheld. Of the first seed; the "
        "weights are those of all facts, but for *none*."
    )
    return f"{says}\n\n{_table(('graph', 'facts at most', 'text', 'paths', 'both'), rows)}"


def _differences(results: Results) -> str:
    rows = []
    for ours, theirs in DIFFERENCES:
        cells = []
        for graph in results.graphs:
            gain = results.gain(graph, ours, theirs, everything)
            cells.append(f"{with_interval(gain, '+')}, p {gain.p:.3f}")
        rows.append([f"{ours} − {theirs}", *cells])
    return _table(("difference", *(TITLES[graph] for graph in results.graphs)), rows)


def _slice_row(results: Results, graph: str, name: str, mask: MaskOf) -> list[str] | None:
    """Return name, number of questions, the three scores, and two differences."""
    listed = results.splits[graph]
    if any(len(np.unique(s.questions["unseen"][mask(s)])) < 2 for s in listed):
        return None
    n = sum(int(mask(split).sum()) for split in listed)
    if n < LEAST * len(listed):
        return None
    scores = [f"{results.score(graph, row, mask).estimate:.3f}" for row in (TEXT, PATHS, MIX)]
    gains = [with_interval(results.gain(graph, *pair, mask), "+")
             for pair in ((PATHS, TEXT), (MIX, TEXT), (MIX, PATHS))]  # fmt: skip
    return [name, str(n), *scores, *gains]


SLICE_HEAD = ("questions", "text", "paths", "both", "paths − text", "both − text", "both − paths")


def _slices(results: Results, graph: str, kinds: Mapping[str, MaskOf]) -> list[list[str]]:
    """Return the rows of the slices with questions enough."""
    rows = (_slice_row(results, graph, name, mask) for name, mask in kinds.items())
    return [row for row in rows if row is not None]


def _by(results: Results, what: str, kinds: Mapping[str, MaskOf]) -> list[str]:
    """Return a table of slices for each graph under its name."""
    parts = []
    for graph in results.graphs:
        table = _table((what, *SLICE_HEAD), _slices(results, graph, kinds))
        parts += [f"**{TITLES[graph]}**", table]
    return parts


def _by_facts(results: Results) -> list[str]:
    def having(low: int, high: int) -> MaskOf:
        return lambda s: (s.questions["n_facts"] >= low) & (s.questions["n_facts"] <= high)

    names = {(low, high): f"{low} to {high}" if high < 1 << 16 else f"{low} on"
             for low, high in FACTS}  # fmt: skip
    names |= {both: str(both[0]) for both in FACTS if both[0] == both[1]}
    return _by(results, "facts", {names[both]: having(*both) for both in FACTS})


SIDES: Mapping[str, MaskOf] = {
    "of the unseen entity, a seen one": lambda s: ~s.questions["is_answer"] & ~s.questions["both"],
    "of a seen entity, the unseen one": lambda s: s.questions["is_answer"] & ~s.questions["both"],
    "both are unseen": lambda s: s.questions["both"],
}
JOINED: Mapping[str, MaskOf] = {
    "a fact joins them": lambda s: s.questions["shares_fact"],
    "none does": lambda s: ~s.questions["shares_fact"],
}
JOINED_SAYS = (
    "A fact that may be read joins the two entities of the triple, in either direction and by "
    "any relation: often the reverse of a symmetric one. Paths then need not go far."
)


def _by_relation(results: Results) -> list[str]:
    def of(number: int) -> MaskOf:
        return lambda s: s.questions["relation"] == number

    parts = []
    for graph in results.graphs:
        kinds = {name: of(number) for number, name in enumerate(results.relations[graph])}
        rows = _slices(results, graph, kinds)
        rows.sort(key=lambda row: float(row[3]) - float(row[2]), reverse=True)
        weights_of = (
            rows if len(rows) <= 2 * N_RELATIONS else rows[:N_RELATIONS] + rows[-N_RELATIONS:]
        )
        head = f"**{TITLES[graph]}** ({len(rows)} relations with questions enough"
        head += "; those with the largest differences)" if len(weights_of) < len(rows) else ")"
        parts += [head, _table(("relation", *SLICE_HEAD), weights_of)]
    return parts


def _by_split(results: Results) -> str:
    rows = []
    for graph in results.graphs:
        for number, split in enumerate(results.splits[graph]):
            for i, seed in enumerate(split.seeds):
                scores = [f"{split.reciprocal(row)[i].mean():.3f}"
                          for row in (TEXT, "ULTRA", "NBFNet", PATHS, MIX)]  # fmt: skip
                rows.append([TITLES[graph], str(number), str(seed), *scores])
    return _table(("graph", "split", "seed", TEXT, "ULTRA", "NBFNet", PATHS, MIX), rows)


def _weights(results: Results) -> str:
    rows = []
    for graph in results.graphs:
        of_graph = [note["weights"] for name, note in results.notes.items()
               if name.startswith(f"{graph}-")]  # fmt: skip
        for kind in (MIX, "text (another) + paths"):
            mean = np.mean([weights[kind] for weights in of_graph], axis=0)  # type: ignore[index]
            cells = [f"{value:.2f}" for side in mean for value in side]
            rows.append([TITLES[graph], kind, *cells])
    head = [f"{side}: {part}" for side in ("head", "tail") for part in (TEXT, "ULTRA", "NBFNet")]
    return "Mean over cells, of scores over their spread.\n\n" + _table(
        ("graph", "mix", *head), rows
    )
