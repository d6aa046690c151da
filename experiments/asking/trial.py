"""Questions about the atlas and a private world, with the fact in the graph and without it.

`python -m experiments.asking.trial` prints the accuracy of chosen answers and of refusals for the
dev questions, on which the threshold was chosen, and for the 200 test questions. The same for
questions in other words than the graph's relations (`experiments.asking.worlds`), over seeds, and
for other forms of questions (`forms.tsv`).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from entity_linking import DictionaryLinker
from experiments.asking.worlds import graph_of, paraphrases
from kept.decoders.answering.answer import LEAST_CONFIDENCE, Answerer
from kept.decoders.answering.encoder import FastSentenceEncoder
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, atlas, graph_from_records

HERE = Path(__file__).parent
N_ATLAS, N_PRIVATE = 150, 50
PRIVATE = {
    "holds the role": ["What is the role of [X]?", "Which role does [X] hold?"],
    "works in department": ["In which department does [X] work?", "What is the department of [X]?"],
    "reports to": ["Who is the manager of [X]?", "To whom does [X] report?"],
    "lives in": ["Where does [X] live?", "In which town does [X] live?"],
    "speaks": ["Which language does [X] speak?", "What language can [X] speak?"],
    "joined in": ["When did [X] join?", "In which year did [X] join the company?"],
}


@dataclass(frozen=True)
class Question:
    """A question about one triple; `values` are right, none where the graph lacks the fact."""

    text: str
    triple: tuple[int, int]
    values: tuple[str, ...]


def atlas_questions(graph: KnowledgeGraph, name: str, n: int, seed: int) -> list[Question]:
    """Return `n` questions of the templates of set `name`, spread over the relations."""
    lines = (HERE / "templates.tsv").read_text(encoding="utf-8").splitlines()[1:]
    rows = [line.split("\t") for line in lines]
    templates = [(relation, text) for relation, part, text in rows if part == name]
    return questions(graph, templates, n, seed)


def questions(
    graph: KnowledgeGraph, templates: Sequence[tuple[str, str]], n: int, seed: int
) -> list[Question]:
    """Return `n` questions, each about a head of the template's relation drawn by `seed`."""
    draw = np.random.default_rng(seed)
    chosen = []
    for i in range(n):
        relation, text = templates[i % len(templates)]
        number = graph.relations.id(relation)
        with_fact = np.unique(graph.triples[graph.triples[:, 1] == number, 0]).tolist()
        heads = [head for head in with_fact if len(graph.named(graph.label(head))) == 1]
        head = int(draw.choice(heads))
        rows = graph.outgoing(head)
        values = tuple(graph.label(int(t)) for t in rows[rows[:, 1] == number, 2])
        chosen.append(Question(text.replace("[X]", graph.label(head)), (head, number), values))
    return chosen


def private_world(seed: int = 0, n_people: int = 60) -> KnowledgeGraph:
    """Return a made-up company whose people no text has ever named."""
    draw = np.random.default_rng(seed)
    starts, ends = (
        ["Bra", "Kel", "Mor", "Tov", "Lin", "Dre", "Sul", "Var"],
        ["dan", "mira", "nok", "sel", "tha"],
    )
    families = ["Okoral", "Tessan", "Vilmork", "Harabin", "Quenlo", "Stadil", "Pomarek", "Ulvano"]
    people = sorted({
        f"{a}{b} {c}" for a in starts for b in ends for c in families
    })  # fmt: skip
    people = [people[i] for i in sorted(draw.choice(len(people), n_people, replace=False))]
    values = {
        "holds the role": (
            "role",
            ["welder", "auditor", "planner", "chemist", "courier", "archivist"],
        ),
        "works in department": ("department", ["Logistics", "Research", "Finance", "Maintenance"]),
        "lives in": ("town", ["Orlbach", "Tanwick", "Mesgrove", "Pellham", "Nordane"]),
        "speaks": ("language", ["Danish", "Korean", "Welsh", "Swahili"]),
        "joined in": ("year", ["2011", "2014", "2017", "2019", "2022"]),
    }
    records: list[Triple | Text] = [Text(person, TextKind.TYPE, "person") for person in people]
    records += [Text(v, TextKind.TYPE, kind) for kind, vs in values.values() for v in vs]
    for i, person in enumerate(people):
        for relation, (_, choices) in values.items():
            records.append(Triple(person, relation, str(draw.choice(choices))))
        records.append(
            Triple(
                person,
                "reports to",
                people[int(draw.integers(len(people)))] if i % 7 else people[0],
            )
        )
    return graph_from_records(records)


def graphs_without(graph: KnowledgeGraph, question: Question) -> dict[str, KnowledgeGraph]:
    """Return the graph without the question's fact, and without any fact of its relation."""
    head, relation = question.triple
    rows = graph.triples
    of_relation = rows[:, 1] == relation
    missing = {
        "refused without": of_relation & (rows[:, 0] == head),
        "refused without the relation": of_relation,
    }
    return {
        name: graph.with_triples(rows[~gone], note="without the fact of the question")
        for name, gone in missing.items()
    }


def evaluate(
    graph: KnowledgeGraph, questions_to_ask: Sequence[Question], least: float
) -> dict[str, int]:
    """Return how many were answered rightly with the fact, and refused without it.

    Without the fact: its triple is taken out; or all triples of its relation are, so that nothing
    in the graph is about what is asked.
    """
    encoder = FastSentenceEncoder()
    full = Answerer(graph, DictionaryLinker(graph), encoder)
    counts = {
        "n": len(questions_to_ask),
        "right": 0,
        "refused with the fact": 0,
        "refused without": 0,
        "refused without the relation": 0,
    }
    for question in questions_to_ask:
        answer = full.answer(question.text, least=least)
        counts["right"] += sorted(answer.values) == sorted(question.values)
        counts["refused with the fact"] += bool(answer.refusal)
        for name, less in graphs_without(graph, question).items():
            answerer = Answerer(less, full.linker, encoder)
            answerer.matcher.share_phrases(full.matcher)
            counts[name] += bool(answerer.answer(question.text, least=least).refusal)
    return counts


def paraphrased(part: str, seeds: Sequence[int], least: float) -> dict[str, dict[str, int]]:
    """Return the counts of the questions in other words of set `part`, by seed, over its worlds."""
    by_seed = {}
    for seed in seeds:
        counts: dict[str, int] = {}
        for world, templates in paraphrases(part).items():
            graph = graph_of(world, seed)
            of_world = questions(graph, templates, len(templates), seed)
            for name, n in evaluate(graph, of_world, least).items():
                counts[name] = counts.get(name, 0) + n
        by_seed[f"{part} (paraphrased), seed {seed}"] = counts
    return by_seed


def evaluate_forms(least: float) -> dict[str, int]:
    """Return the counts of questions of several forms, over the small graph `forms_graph.tsv`."""
    rows = [line.split("\t") for line in _lines("forms_graph.tsv")]
    graph = KnowledgeGraph.from_triples([(head, relation, tail) for head, relation, tail in rows])
    answerer = Answerer(graph, DictionaryLinker(graph), FastSentenceEncoder())
    counts = {"n": 0, "right": 0, "answered wrongly": 0, "to refuse": 0, "refused rightly": 0}
    for line in _lines("forms.tsv"):
        text, _, values = line.partition("\t")
        right = set(filter(None, values.split("; ")))
        answered = set(answerer.answer(text, least=least).values)
        counts["n"] += 1
        counts["right"] += answered == right
        counts["answered wrongly"] += bool(answered) and answered != right
        counts["to refuse"] += not right
        counts["refused rightly"] += not right and not answered
    return counts


def _lines(name: str) -> list[str]:
    return (HERE / name).read_text(encoding="utf-8").splitlines()


def main() -> None:
    """Print and write the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, help="write the counts as JSON")
    parser.add_argument("--least", type=float, default=LEAST_CONFIDENCE)
    options = parser.parse_args()
    world, private = atlas.graph(), private_world()
    templates = [(relation, text) for relation, texts in PRIVATE.items() for text in texts]
    results = {
        "dev (atlas)": evaluate(world, atlas_questions(world, "dev", 100, seed=1), options.least),
        "test (atlas)": evaluate(
            world, atlas_questions(world, "test", N_ATLAS, seed=2), options.least
        ),
        "test (private)": evaluate(
            private, questions(private, templates, N_PRIVATE, 3), options.least
        ),
        **paraphrased("dev", [1], options.least),
        **paraphrased("tune", [1], options.least),
        **paraphrased("test", [11, 12, 13], options.least),
        **paraphrased("held-out", [11, 12, 13], options.least),
        "forms of questions": evaluate_forms(options.least),
    }
    for name, counts in results.items():
        print(name, counts)
    if options.output is not None:
        options.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
