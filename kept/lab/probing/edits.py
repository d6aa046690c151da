"""The fact-edit probe: change a triple in the graph, probe again, and compare all answers.

A model that reads its graph should follow an edit at once, in any wording, and change nothing else.
The terms are those of Meng et al. 2022, "Locating and Editing Factual Associations in GPT"
(NeurIPS), section 3.4, where weights are edited: *efficacy* (the new answer above the old one for
the edited fact), *paraphrase* (the same in other words), *specificity* (the old answer above the
new one for other subjects that have the old answer, too). Where we differ: the graph is edited and
never the weights; scores are those of the probe's ranking (mean log-probabilities, or logits), not
probabilities; other facts of the subject, other answers of the relation and unrelated facts are
probed as well, for how often their first answer changes.

Axis legend: edit, item, scope.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

import numpy as np

from entity_linking.scoring.intervals import Interval
from kept.errors import EvaluationError
from kept.evaluation.statistics import bootstrap_interval
from kept.lab.probing.items.item import ClozeItem
from kept.lab.probing.results import ProbeAnswer, ProbeResult, Ranking, RankingName
from kept.lab.study.tables import with_interval
from kept.randomness import generator
from kg_loaders import KnowledgeGraph

Fact = tuple[str, str, str]
Key = tuple[str, str, tuple[str, ...]]
Scope = Literal["edited", "paraphrase", "same subject", "same answer", "same relation", "unrelated"]
SCOPES: tuple[Scope, ...] = (
    "edited", "paraphrase", "same subject", "same answer", "same relation", "unrelated",
)  # fmt: skip
WITH_NEW: frozenset[Scope] = frozenset({"edited", "paraphrase", "same answer"})
"""Where the new answer is scored beside the old one."""
Probe = Callable[[KnowledgeGraph, Sequence[ClozeItem]], ProbeResult]
"""Probes the items in order with that graph, the facts asked about included."""
NEW = "#new"


@dataclass(frozen=True, slots=True)
class FactEdit:
    """The edit of `fact` to the new `tail`; answers are how the two read in a sentence."""

    fact: Fact
    tail: str
    old_answer: str
    new_answer: str


@dataclass(frozen=True, slots=True)
class Moved:
    """One item before and after one edit; `None` where there is no rank, or no new answer.

    `before` and `after` rank the item's answer, `new_before` and `new_after` the edit's new one.
    `is_shown`: whether after the edit the model's input has a fact that joins the subject with the
    true answer: the new one for the edited fact, elsewhere the item's own.
    """

    edit: int
    scope: Scope
    item: str
    before: Ranking | None
    after: Ranking | None
    new_before: Ranking | None = None
    new_after: Ranking | None = None
    is_shown: bool | None = None


def edited(graph: KnowledgeGraph, edit: FactEdit) -> KnowledgeGraph:
    """Return `graph` with the fact's tail replaced; equivalent facts of other relations stay.

    Raises `EvaluationError` for a fact that the graph does not hold, or a new one that it does.
    """
    row, new = _position(graph, edit)
    triples = np.array(graph.triples)
    triples[row] = new
    return graph.with_triples(triples, note=f"{' '.join(edit.fact)} now {edit.tail}")


def _position(graph: KnowledgeGraph, edit: FactEdit) -> tuple[int, list[int]]:
    """Return the row of the edited fact, and its new triple."""
    head, relation, tail = edit.fact
    ids = [graph.entities.find(name) for name in (head, tail, edit.tail)]
    of_relation = graph.relations.find(relation)
    if None in ids or of_relation is None:
        raise EvaluationError(f"{edit}: the graph does not know all of its names; edit another")
    old, new = [ids[0], of_relation, ids[1]], [ids[0], of_relation, ids[2]]
    row, there = graph.find(np.array([old, new], np.int32)).tolist()
    if row < 0 or there >= 0:
        wrong = "is not a triple of the graph" if row < 0 else "is true already in its new form"
        raise EvaluationError(f"{edit.fact} -> {edit.tail}: the fact {wrong}; edit another")
    return row, [int(i) for i in new if i is not None]


def scope_of(item: ClozeItem, edit: FactEdit) -> Scope:
    """Return the scope of an item for an edit; "edited" is any wording of its fact."""
    if item.fact is None:
        return "unrelated"
    (head, relation, tail), (h, r, t) = item.fact, edit.fact
    if item.fact == edit.fact:
        return "edited"
    if head == h:
        return "same subject"
    if relation == r:
        return "same answer" if tail == t else "same relation"
    return "unrelated"


def draw_edits(
    items: Iterable[ClozeItem], graph: KnowledgeGraph, n: int, *, seed: int
) -> list[FactEdit]:
    """Up to `n` facts of `items` that the graph holds, each with another answer of its relation.

    New answers are sampled uniformly from those of the relation's items that the graph has, that
    read differently and are not true of the head.
    """
    facts: dict[Fact, str] = {}
    answers: dict[str, dict[str, str]] = {}
    for item in items:
        if item.fact is not None:
            facts.setdefault(item.fact, item.answer)
            answers.setdefault(item.fact[1], {}).setdefault(item.fact[2], item.answer)
    names = list(facts)
    edits: list[FactEdit] = []
    for index in generator(seed, "edited facts").permutation(len(names)).tolist():
        if len(edits) == n:
            break
        fact = names[index]
        others = [
            (tail, answer)
            for tail, answer in sorted(answers[fact[1]].items())
            if answer != facts[fact]
            and tail in graph.entities
            and not _holds(graph, (*fact[:2], tail))
        ]
        if others and _holds(graph, fact):
            tail, answer = others[int(generator(seed, "new answer", *fact).integers(len(others)))]
            edits.append(FactEdit(fact, tail, facts[fact], answer))
    return edits


def _holds(graph: KnowledgeGraph, fact: Sequence[str]) -> bool:
    head, relation, tail = fact
    ids = graph.entities.find(head), graph.relations.find(relation), graph.entities.find(tail)
    if ids[0] is None or ids[1] is None or ids[2] is None:
        return False
    return bool(graph.contains(np.array([ids], np.int32))[0])


def probe_edits(
    graph: KnowledgeGraph,
    edits: Sequence[FactEdit],
    items: Sequence[ClozeItem],
    probe: Probe,
    *,
    ranking: RankingName = "objects",
    per_scope: int = 20,
    seed: int = 0,
) -> list[Moved]:
    """Probe `items` with the graph as it is and, edit by edit, with the edited one.

    Each edit is made on the whole graph, alone. Of each scope at most `per_scope` items are probed,
    sampled by `seed`; every wording of the edited fact is, the first as "edited", the others as
    "paraphrase". Raises `EvaluationError` as `edited`, and for a fact that no item asks for.
    """
    for edit in edits:
        _position(graph, edit)  # all faults before the model is asked
    chosen_items = [_chosen(items, edit, n, per_scope, seed) for n, edit in enumerate(edits)]
    items_by_key: dict[Key, ClozeItem] = {}
    for edit, rows in zip(edits, chosen_items, strict=True):
        for scope, item in rows:
            items_by_key |= {_key(each): each for each in _questions(scope, item, edit)}
    before = _answers(probe(graph, list(items_by_key.values())), list(items_by_key.values()))
    moved: list[Moved] = []
    for n, (edit, rows) in enumerate(zip(edits, chosen_items, strict=True)):
        questions = {_key(q): q for scope, item in rows for q in _questions(scope, item, edit)}
        after = _answers(
            probe(edited(graph, edit), list(questions.values())), [*questions.values()]
        )
        for scope, item in rows:
            keys = [_key(question) for question in _questions(scope, item, edit)]
            pairs = [(before[key].ranking(ranking), after[key].ranking(ranking)) for key in keys]
            new = pairs[1] if len(pairs) == 2 else (None, None)
            true = keys[-1] if scope in ("edited", "paraphrase") else keys[0]
            is_shown = after[true].asked_shown
            moved.append(Moved(n, scope, item.id, *pairs[0], *new, is_shown=is_shown))
    return moved


def _chosen(
    items: Sequence[ClozeItem], edit: FactEdit, n: int, per_scope: int, seed: int
) -> list[tuple[Scope, ClozeItem]]:
    items_of_scope: dict[Scope, list[ClozeItem]] = {scope: [] for scope in SCOPES}
    for item in items:
        items_of_scope[scope_of(item, edit)].append(item)
    if not items_of_scope["edited"]:
        raise EvaluationError(f"no item is about the fact {edit.fact}; give one, or another edit")
    items_of_scope["paraphrase"] = items_of_scope["edited"][1:]
    items_of_scope["edited"] = items_of_scope["edited"][:1]
    rows: list[tuple[Scope, ClozeItem]] = []
    for scope, those in items_of_scope.items():
        order = generator(seed, "items of an edit", n, scope).permutation(len(those))
        kept = sorted(order[:per_scope].tolist()) if scope != "paraphrase" else range(len(those))
        rows += [(scope, those[i]) for i in kept]
    return rows


def _questions(scope: Scope, item: ClozeItem, edit: FactEdit) -> list[ClozeItem]:
    """The item and, where the new answer matters, the same sentence with it as answer.

    Both get the same facts, so that their scores are of one input.
    """
    if scope not in WITH_NEW:
        return [item]
    others = tuple(name for name in item.also_right if name != edit.new_answer)
    fact = item.fact and (*item.fact[:2], edit.tail)
    new = dataclasses.replace(
        item,
        id=f"{item.id}{NEW}",
        answer=edit.new_answer,
        also_right=others,
        fact=fact,
        draw_key=item.draw_key or item.id,
    )
    return [dataclasses.replace(item, also_right=others), new]


def _key(item: ClozeItem) -> Key:
    return item.id, item.answer, item.also_right


def _answers(result: ProbeResult, items: Sequence[ClozeItem]) -> dict[Key, ProbeAnswer]:
    pairs = zip(items, result.answers, strict=True)
    return {_key(item): answer for item, answer in pairs}


# ---- what it comes to ---------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class EditRow:
    """All edits of one scope. Counts of items; intervals are bootstraps over edits.

    `new_first_before`, `new_first_after`: share of items where the new answer scores above the old
    one (after: efficacy, paraphrase). For "same answer" the old one is right, and 1 minus it is the
    specificity. `changed`: share whose first answer is another one. `rank_change`: mean of rank
    after minus before of the item's answer; `score_change` of its score. `n_shown`: items with
    `Moved.is_shown`.
    """

    scope: Scope
    n_items: int
    n_ranked: int
    n_shown: int
    new_first_before: float | None
    new_first_after: float | None
    new_first_interval: Interval | None
    changed: float | None
    changed_interval: Interval | None
    rank_change: float | None
    score_change: float | None


def summarise(moved: Sequence[Moved], *, seed: int = 0) -> list[EditRow]:
    """A row for each scope that was probed."""
    rows = []
    for scope in SCOPES:
        those = [each for each in moved if each.scope == scope]
        if those:
            rows.append(_row(scope, those, seed))
    return rows


def _row(scope: Scope, those: Sequence[Moved], seed: int) -> EditRow:
    ranked = [(m, m.before, m.after) for m in those if m.before and m.after]
    with_new = [
        (m.edit, m.new_before.score > b.score, m.new_after.score > a.score)
        for m, b, a in ranked
        if m.new_before and m.new_after
    ]
    changed = [(m.edit, b.top[:1] != a.top[:1]) for m, b, a in ranked]
    return EditRow(
        scope=scope,
        n_items=len(those),
        n_ranked=len(ranked),
        n_shown=sum(bool(m.is_shown) for m in those),
        new_first_before=_mean([before for _, before, _ in with_new]),
        new_first_after=_mean([after for _, _, after in with_new]),
        new_first_interval=_interval([(edit, after) for edit, _, after in with_new], seed, scope),
        changed=_mean([value for _, value in changed]),
        changed_interval=_interval(changed, seed, scope),
        rank_change=_mean([a.rank - b.rank for _, b, a in ranked]),
        score_change=_mean([a.score - b.score for _, b, a in ranked]),
    )


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _interval(values: Sequence[tuple[int, bool]], seed: int, scope: Scope) -> Interval | None:
    if len({edit for edit, _ in values}) < 2:
        return None
    return bootstrap_interval(
        [value for _, value in values],
        clusters=[edit for edit, _ in values],
        generator=generator(seed, "edits", scope),
    )


def edit_table(rows: Sequence[EditRow]) -> str:
    """Markdown; "new above old" after the edit is efficacy for "edited", paraphrase for that."""
    names = (
        "scope",
        "items",
        "ranked",
        "shown",
        "new above old before",
        "after",
        "first answer changed",
        "rank change",
        "score change",
    )
    lines = [f"| {' | '.join(names)} |", f"|---|{'---:|' * (len(names) - 1)}"]
    for row in rows:
        cells = (
            row.scope,
            str(row.n_items),
            str(row.n_ranked),
            str(row.n_shown),
            _number(row.new_first_before),
            _number(row.new_first_after, row.new_first_interval),
            _number(row.changed, row.changed_interval),
            _number(row.rank_change),
            _number(row.score_change),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _number(value: float | None, interval: Interval | None = None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if interval is None else with_interval(interval)
