"""Collections of cloze questions by name, read from LAMA's folder. The table is at the bottom.

The folder holds `TREx/P*.jsonl.gz`, `relations.jsonl`, `Squad/test.jsonl`, `optiprompt/`,
`pararel_patterns.tar.gz`, `pararel_trex_lms_vocab.tar.gz`, `lpaqa_prompts.tar.gz`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kept.errors import ConfigError
from kept.lab.probing.items.facts import (
    ClozeFact,
    QuestionSet,
    answers_by_subject,
    draw_facts,
    questions,
    read_facts,
)
from kept.lab.probing.items.item import ClozeItem, objects_of
from kept.lab.probing.items.masked_sentences import read_squad
from kept.lab.probing.items.templates import Templates, first_of_each, read_templates
from kept.suggestions import no_such
from kg_loaders.damage import DamageReport


@dataclass(frozen=True, slots=True)
class Draw:
    """At most `per_relation` facts per relation, sampled by `seed`; None takes all."""

    per_relation: int | None = None
    seed: int = 0
    relations: tuple[str, ...] = ()


def trex_facts(folder: Path) -> list[ClozeFact]:
    """LAMA's T-REx part: 28 of its 41 relations, with identifiers."""
    return list(read_facts(folder / "TREx", DamageReport()))


def nameless_facts(folder: Path) -> list[ClozeFact]:
    """The 13 relations of T-REx that only ParaRel has, without identifiers."""
    relations = {fact.relation for fact in trex_facts(folder)}
    facts = read_facts(folder / "pararel_trex_lms_vocab.tar.gz", DamageReport())
    return [fact for fact in facts if fact.relation not in relations]


def pararel_facts(folder: Path) -> list[ClozeFact]:
    """ParaRel's facts, with T-REx's identifiers where it has the same fact (by `uuid`)."""
    facts_by_id = {(fact.relation, fact.id): fact for fact in trex_facts(folder)}
    facts = read_facts(folder / "pararel_trex_lms_vocab.tar.gz", DamageReport())
    return [facts_by_id.get((fact.relation, fact.id), fact) for fact in facts]


def lama_templates(folder: Path) -> Templates:
    """LAMA's own, one a relation, 46 relations."""
    return read_templates(folder / "relations.jsonl", DamageReport())


def pararel_templates(folder: Path) -> Templates:
    """ParaRel's patterns, 39 relations, several of each."""
    return read_templates(folder / "pararel_patterns.tar.gz", DamageReport())


Facts = Callable[[Path], list[ClozeFact]]
Prompts = Callable[[Path], Templates]
Reader = Callable[[Path, DamageReport, Draw], list[ClozeItem]]


def _in_templates(facts: Facts, prompts: Prompts) -> Reader:
    def read(folder: Path, report: DamageReport, draw: Draw) -> list[ClozeItem]:
        everything = facts(folder)
        _require_relations(draw.relations, everything)
        eligible = [f for f in everything if not draw.relations or f.relation in draw.relations]
        sampled = draw_facts(eligible, draw.per_relation, seed=draw.seed)
        answers = answers_by_subject(everything)
        return questions(sampled, prompts(folder), report, known_answers=answers)

    return read


def _require_relations(relations: tuple[str, ...], facts: list[ClozeFact]) -> None:
    there = dict.fromkeys(fact.relation for fact in facts)
    unknown = [name for name in relations if name not in there]
    if unknown:
        raise ConfigError(f"no fact of relation {unknown[0]!r}; there are {', '.join(there)}")


def _squad(folder: Path, report: DamageReport, draw: Draw) -> list[ClozeItem]:
    if draw.relations:
        raise ConfigError(f"SQuAD questions have no relations; leave out {draw.relations}")
    return list(read_squad(folder / "Squad" / "test.jsonl", report))[: draw.per_relation]


def _prompts(file: str, inside: str = "", *, best: bool = False) -> Prompts:
    def read(folder: Path) -> Templates:
        templates = read_templates(folder / file, DamageReport(), inside=inside)
        return first_of_each(templates) if best else templates

    return read


COLLECTIONS: dict[str, Reader] = {
    "trex": _in_templates(trex_facts, lama_templates),
    "trex-nameless": _in_templates(nameless_facts, lama_templates),
    "trex-autoprompt": _in_templates(trex_facts, _prompts("optiprompt/AutoPrompt_relations.jsonl")),
    "trex-lpaqa": _in_templates(trex_facts, _prompts("optiprompt/LPAQA_relations.jsonl")),
    "trex-mined": _in_templates(trex_facts, _prompts("lpaqa_prompts.tar.gz", "mine", best=True)),
    "trex-paraphrased": _in_templates(
        trex_facts, _prompts("lpaqa_prompts.tar.gz", "paraphrase", best=True)
    ),
    "pararel": _in_templates(pararel_facts, pararel_templates),
    "squad": _squad,
}


def read_collection(
    name: str, folder: str | Path, report: DamageReport, draw: Draw | None = None
) -> list[ClozeItem]:
    """The questions of the collection called `name`; raises `ConfigError` listing all names."""
    if name not in COLLECTIONS:
        raise no_such("collection", name, COLLECTIONS)
    return COLLECTIONS[name](Path(folder), report, draw or Draw())


def collection_questions(name: str, folder: str | Path, draw: Draw) -> QuestionSet:
    """A collection's questions with all objects of their relations, also of facts not sampled."""
    report = DamageReport()
    everything = read_collection(name, folder, report, dataclasses.replace(draw, per_relation=None))
    items = everything
    if draw.per_relation is not None:
        items = read_collection(name, folder, report := DamageReport(), draw)
    n_facts = len(frozenset(item.group or item.id for item in everything))
    return QuestionSet(items, objects_of(everything), n_facts, dict(report.skipped))
