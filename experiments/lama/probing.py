"""What each row of the experiment is asked, and the numbers that come of it.

Every row answers from its weights alone; those whose method reads a graph answer with it, too, and
that is a result of its own. On the graph that holds the probed facts they are shown, on the other
there are none to show. The names of LAMA-UHN's second filter are guessed by the row `host`, so that
all rows are judged on the same questions.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from entity_linking.annotations import whole_file
from experiments.lama.data import LamaWorld
from experiments.lama.study import LamaStudy, Row
from kept.errors import EvaluationError
from kept.lab.probing.engine import probe
from kept.lab.probing.items.collections import (
    Draw,
    lama_templates,
    pararel_templates,
    read_collection,
)
from kept.lab.probing.items.facts import answers_by_subject, draw_facts, questions, with_answers_of
from kept.lab.probing.items.item import ClozeItem, objects_of
from kept.lab.probing.items.masked_sentences import AlteredItem, facts_by_name, read_altered
from kept.lab.probing.items.names import WithoutHelpfulNames, without_helpful_names
from kept.lab.probing.models.base import ClozeModel
from kept.lab.probing.results import ProbeResult, write_answers
from kept.lab.probing.robustness import altered, consistency
from kept.lab.probing.tables import (
    Majority,
    macro_row,
    majority,
    popularity_rows,
    relation_rows,
    subject_degrees,
    total_row,
)
from kept.lab.study.origins import fingerprint_of
from kept.randomness import generator
from kg_loaders.damage import DamageReport

FURTHER = ("squad", "trex-nameless")
"""Collections without identifiers: asked of weights alone; nothing was cleaned of their facts."""
VOCABULARY = "optiprompt/common_vocab_cased.txt.gz"
PRIMES = "TREx/high_ranked"


@dataclass(frozen=True)
class Questions:
    """Everything that is asked, and what was left out on the way (`counts`).

    `items` are the probed facts in LAMA's words, `paraphrases` some of them in ParaRel's, `altered`
    some of them negated and misprimed. `baseline` names the objects of each relation by
    their frequency among all facts of T-REx that are not probed.
    """

    items: tuple[ClozeItem, ...]
    paraphrases: tuple[ClozeItem, ...]
    altered: tuple[AlteredItem, ...]
    further: Mapping[str, tuple[ClozeItem, ...]]
    objects: Mapping[str, Sequence[str]]
    vocabulary: tuple[str, ...]
    baseline: Majority
    degrees: tuple[int | None, ...]
    counts: Mapping[str, str]

    @cached_property
    def fingerprint(self) -> str:
        """Of every question, candidate and object of the baseline."""
        altered = [form for one in self.altered for form in (one.original, one.negated,
                   one.misprimed) if form is not None]  # fmt: skip
        groups = (self.items, self.paraphrases, altered, *self.further.values())
        return fingerprint_of(
            [[(i.id, i.linked.text, i.answer, i.also_right, i.fact) for i in g] for g in groups],
            {name: list(objects) for name, objects in self.objects.items()},
            self.vocabulary,
            {name: list(objects) for name, objects in self.baseline.ranked.items()},
            self.degrees,
        )


def read_questions(folder: Path, study: LamaStudy, world: LamaWorld) -> Questions:
    """Return the questions on the probed facts, from LAMA's folder."""
    graph, reports = world.graphs["given"], {name: DamageReport() for name in _SOURCES}
    templates, patterns = lama_templates(folder), pararel_templates(folder)
    known = answers_by_subject(world.every_fact)
    items = questions(world.facts, templates, reports["LAMA"], known_answers=known)
    items = with_answers_of(items, graph)
    few = draw_facts(world.facts, study.paraphrased, seed=study.seed)
    paraphrases = questions(few, patterns, reports["ParaRel"], known_answers=known)
    every = read_altered(
        folder / "primed_negated.tar.gz", reports["altered"], inside=PRIMES,
        facts=facts_by_name(world.facts),
    )  # fmt: skip
    of_probed = [item for item in every if item.original.fact is not None]
    further = {}
    for name in FURTHER:
        draw = Draw(study.facts_per_relation if name != "squad" else None, study.seed)
        report = reports.setdefault(name, DamageReport())
        further[name] = tuple(read_collection(name, folder, report, draw))
    ids = frozenset(fact.id for fact in world.facts)
    others = [(f.relation, f.answer) for f in world.every_fact if f.id not in ids]
    counts = {name: f"{report} {report.skipped or ''}".strip() for name, report in reports.items()}
    return Questions(
        items=tuple(items),
        paraphrases=tuple(with_answers_of(paraphrases, graph)),
        altered=tuple(_few(of_probed, study.altered)),
        further=further,
        objects=objects_of(
            questions([*world.every_fact], templates, DamageReport(), known_answers={})
        ),
        vocabulary=tuple(w for w in whole_file(folder / VOCABULARY).decode().split("\n") if w),
        baseline=majority(items, others),
        degrees=tuple(subject_degrees(items, graph)),
        counts=counts | {"altered, of probed facts": f"{len(of_probed)} questions"},
    )


_SOURCES = ("LAMA", "ParaRel", "altered")


def _few(items: Sequence[AlteredItem], per_relation: int) -> list[AlteredItem]:
    """The first ones of each relation."""
    kept: dict[str, list[AlteredItem]] = {}
    for item in items:
        kept.setdefault(item.original.relation, []).append(item)
    return [item for of_relation in kept.values() for item in of_relation[:per_relation]]


def helpful_names(model: ClozeModel, question_set: Questions) -> WithoutHelpfulNames:
    """Return LAMA-UHN's part of the probed questions, as a model guesses names."""

    def ranks(items: Sequence[ClozeItem]) -> list[int | None]:
        result = probe(model, items, vocabulary=question_set.vocabulary, objects=None)
        ranks_of = [answer.restricted for answer in result.answers]
        return [None if ranking is None else ranking.rank for ranking in ranks_of]

    return without_helpful_names(
        question_set.items, ranks, model="the row host", candidates="LAMA's common vocabulary"
    )


def probe_mode(
    model: ClozeModel, row: Row, study: LamaStudy, question_set: Questions, names: frozenset[str],
    out: Path,
) -> dict[str, Any]:  # fmt: skip
    """Return the scores of a row in a mode; its answers are written into its folder."""
    result = probe(
        model, question_set.items, vocabulary=question_set.vocabulary, objects=question_set.objects
    )
    write_answers(result, out / row.name / f"answers-{model.mode}.jsonl")
    without_names = _part(result, names)
    results: dict[str, Any] = {
        "row": row.name, "mode": model.mode, "asked_facts": result.asked_facts,
        "n_shown": sum(bool(answer.asked_shown) for answer in result.answers),
        "skipped": {name: result.skipped(name) for name in ("restricted", "objects")},
    }  # fmt: skip
    for ranking in ("restricted", "objects"):
        draws = generator(study.seed, "intervals", ranking)
        options: dict[str, Any] = {"generator": draws, "baseline": question_set.baseline}
        results[ranking] = {
            "all": total_row(result, ranking, **options),
            "relations": macro_row(result, ranking, **options),
            "without helpful names": macro_row(without_names, ranking, **options),
            "by relation": relation_rows(result, ranking, **options),
            "by degree": popularity_rows(result, ranking, question_set.degrees, **options),
        }
    results["consistency"] = _consistency(model, study, question_set)
    results["altered"] = _altered(model, study, question_set)
    if model.mode == "weights":
        results["further"] = _further(model, study, question_set)
    plain: dict[str, Any] = json.loads(json.dumps(results, default=dataclasses.asdict))
    return plain


def _part(result: ProbeResult, ids: frozenset[str]) -> ProbeResult:
    answers = tuple(answer for answer in result.answers if answer.id in ids)
    return dataclasses.replace(result, answers=answers)


def _consistency(model: ClozeModel, study: LamaStudy, question_set: Questions) -> Any:
    """Among the objects of the relation, as Elazar et al. ask."""
    result = probe(model, question_set.paraphrases, vocabulary=None, objects=question_set.objects)
    return consistency(result, "objects", seed=study.seed)


def _altered(model: ClozeModel, study: LamaStudy, question_set: Questions) -> Any:
    """Among all words, so that primes compete; None where too few were ranked."""
    items = [
        form
        for item in question_set.altered
        for form in (item.original, item.negated, item.misprimed)
        if form is not None
    ]
    whole = len(question_set.vocabulary)
    result = probe(model, items, vocabulary=question_set.vocabulary, objects=None, n_top=whole)
    try:
        return altered(question_set.altered, result, "restricted", seed=study.seed)
    except EvaluationError:
        return None


def _further(model: ClozeModel, study: LamaStudy, question_set: Questions) -> dict[str, Any]:
    results = {}
    for name, items in question_set.further.items():
        result = probe(model, items, vocabulary=question_set.vocabulary, objects=None)
        results[name] = macro_row(
            result,
            "restricted",
            generator=generator(study.seed, "intervals", name),
            baseline=majority(items),
        )
    return results
