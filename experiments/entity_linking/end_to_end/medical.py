"""`python -m experiments.entity_linking.end_to_end.medical -o OUT`: a private graph, no training.

Needs KEPT_DATA. Graph: diseases (three slims of the Disease Ontology), approved drugs (DrugBank's
open part), which drug is indicated for which disease. It knows one name of each, no synonym. Text:
the ontology's definitions and DrugBank's descriptions. What a name in the text means, the
ontology's own labels, synonyms and abbreviations say, where they mean one entity alone; so there
are names that the graph knows, wordings and abbreviations that it has never seen, and labels with
one letter wrong, made here. Then a person corrects the links of half of the documents: what was
corrected becomes counts of the index and a re-ranker, and the other half is linked again; with a
tagger too, trained on a part of what was corrected. Articles about COVID-19 (COVID-QA), where
nobody marked anything, are linked as well: how much of them, how fast.

Writes medical.md and medical.json.
"""

from __future__ import annotations

import argparse
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from entity_linking import DictionaryLinker, gold_link
from entity_linking.decision import Decision
from entity_linking.detection import EndToEnd, NamesAndTagger
from entity_linking.detection.misspelt import TypoCandidates, TypoIndex, WithMisspelt
from entity_linking.fuzzy.of_graph import SpeltAlike
from entity_linking.mentions import LinkedText, Linker, Mention
from entity_linking.names import NameCandidates, NameIndex, NameLinker, count_links
from entity_linking.parts import CandidateSource, Scorer
from entity_linking.pipeline import Pipeline
from entity_linking.scorers.mix import default_mix, default_scorers
from entity_linking.scorers.reranker import Reranker, split_by_text, with_gold
from entity_linking.sources import FirstFound
from experiments.command import data_root, write_results
from experiments.entity_linking.end_to_end.homonyms import HOMONYM, conflated
from experiments.entity_linking.inputs.texts import uniform_value
from kept.lab.study.cells import page_of
from kept.lab.study.tables import Table
from kept.linking.tagging.marked import MarkedText
from kept.linking.tagging.tagger import Tagger
from kept.linking.tagging.training import train_tagger
from kept.tasks.datasets.public_files import content, json_of, table
from kg_loaders import KnowledgeGraph, Record, Text, TextKind, Triple, graph_from_records

SLIMS = ("cancer", "infectious_disease", "rare")
ABBREVIATION = "OMO:0003012"
TRAINING_SHARE = 0.3
"""Of the corrected documents that teach the tagger."""
KINDS = ("label", "label, one letter wrong", "synonym", "abbreviation")
ELSEWHERE = "nothing is marked there"
T = TypeVar("T")
Scores = dict[str, dict[str, dict[str, float]]]
"""By row and kind of mention."""
_SYNONYM = re.compile(r'synonym: "((?:[^"\\]|\\.)*)" EXACT(.*)')
_QUOTED = re.compile(r'def: "((?:[^"\\]|\\.)*)"')


class Disease(NamedTuple):
    """A term of the ontology."""

    id: str
    name: str
    definition: str
    synonyms: tuple[str, ...]
    abbreviations: tuple[str, ...]
    parents: tuple[str, ...]


def diseases(root: Path) -> dict[str, Disease]:
    """The terms of the slims by identifier."""
    terms: dict[str, Disease] = {}
    for slim in SLIMS:
        text = content(root / f"medical/disease_ontology/DO_{slim}_slim.obo")
        for block in text.split("\n[Term]\n")[1:]:
            term = _term(block.split("\n\n[")[0].split("\n"))
            terms.setdefault(term.id, term)
    return terms


def _term(lines: Sequence[str]) -> Disease:
    fields = [line.partition(": ")[::2] for line in lines]
    values = dict(reversed(fields))
    matches = [m for line in lines if (m := _SYNONYM.match(line))]
    quoted = _QUOTED.match(f"def: {values.get('def', '')}")
    return Disease(
        values["id"],
        values["name"],
        _plain(quoted[1]) if quoted else "",
        tuple(_plain(m[1]) for m in matches if ABBREVIATION not in m[2]),
        tuple(_plain(m[1]) for m in matches if ABBREVIATION in m[2]),
        tuple(value.split()[0] for name, value in fields if name == "is_a"),
    )


def _plain(text: str) -> str:
    return text.replace('\\"', '"').replace("\\,", ",").replace("_", " ")


def drugs(root: Path) -> dict[str, tuple[str, str]]:
    """Identifier to name and description."""
    rows = table(root / "medical/drugbank_open/drugbank-slim.tsv", is_quoted=True)
    return {row["drugbank_id"]: (row["name"], row["description"]) for row in rows}


def graph_of(root: Path, renamed: Mapping[str, str] | None = None) -> KnowledgeGraph:
    """The private graph: one name an entity, of those `renamed` the other one."""
    other = renamed or {}

    def records() -> Iterator[Record]:
        known = diseases(root)
        for term in known.values():
            yield Text(term.id, TextKind.LABEL, other.get(term.id, term.name))
            for parent in term.parents:
                if parent in known:
                    yield Triple(term.id, "is_a", parent)
        for drug, (name, _) in drugs(root).items():
            yield Text(drug, TextKind.LABEL, other.get(drug, name))
        for row in table(root / "medical/indications/indications.tsv", is_quoted=True):
            if row["doid_id"] in known and row["category"] != "NOT":
                yield Triple(row["drugbank_id"], "treats", row["doid_id"])

    return graph_from_records(records())


def gold_texts(root: Path) -> tuple[list[LinkedText], dict[tuple[str, Mention], str]]:
    """Texts with every name that means one entity alone, and the kind of each such mention."""
    terms, medicines = diseases(root), drugs(root)
    kinds: dict[str, str] = {}
    means: dict[str, set[str]] = {}
    for term in terms.values():
        names = (("label", (term.name,)), ("synonym", term.synonyms))
        for kind, surfaces in (*names, ("abbreviation", term.abbreviations)):
            for name in surfaces:
                kinds.setdefault(name, kind)
                means.setdefault(name, set()).add(term.id)
    for drug, (name, _) in medicines.items():
        kinds.setdefault(name, "label")
        means.setdefault(name, set()).add(drug)
    everything = graph_from_records(
        Text(entity, TextKind.ALIAS, name)
        for name, entities in means.items()
        for entity in sorted(entities)
    )
    finder = DictionaryLinker(everything, exact=True)
    words = {t.id: t.definition for t in terms.values()} | {
        d: text for d, (_, text) in medicines.items()
    }
    texts, of_kind = [], {}
    for (name, text), linked in zip(words.items(), finder.link(list(words.values())), strict=True):
        links = []
        for link in linked.links:
            surface = text[link.mention.start : link.mention.end]
            if len(means.get(surface, ())) == 1 and len(surface) > 2:
                (entity,) = means[surface]
                links.append(gold_link(link.mention.start, link.mention.end, entity))
                of_kind[name, link.mention] = kinds[surface]
        if links:
            texts.append(LinkedText(text, tuple(links), name))
    return _misspelt(texts, of_kind)


def _misspelt(
    texts: Sequence[LinkedText], kinds: dict[tuple[str, Mention], str]
) -> tuple[list[LinkedText], dict[tuple[str, Mention], str]]:
    """Every fifth long label has two neighbouring letters swapped."""
    changed, of_kind = [], dict(kinds)
    for text in texts:
        words = text.text
        for link in text.links:
            start, end = link.mention.start, link.mention.end
            is_label = kinds[text.id, link.mention] == "label" and end - start >= 7
            if is_label and uniform_value(0, f"letter {text.id} {start}") < 0.2:
                at = (start + end) // 2
                words = words[:at] + words[at + 1] + words[at] + words[at + 2 :]
                if words != text.text:
                    of_kind[text.id, link.mention] = KINDS[1]
        changed.append(replace(text, text=words))
    return changed, of_kind


def linker(
    graph: KnowledgeGraph,
    corrected: Sequence[LinkedText] = (),
    *,
    misspelt: bool = False,
    scorer: Scorer | None = None,
) -> Pipeline:
    """The linker without training, or with what a person corrected: counts and a re-ranker."""
    names = NameIndex.build(graph, counts=count_links(corrected))
    by_name: CandidateSource = NameCandidates(names)
    scorers = default_scorers(graph)
    finder = NameLinker(names)
    mentions: Linker = finder
    if misspelt:
        typos = TypoIndex(names)
        mentions, by_name = WithMisspelt(finder, typos), TypoCandidates(by_name, typos)
    source = FirstFound([by_name, SpeltAlike(graph, None)])
    plain = Pipeline(mentions, source, scorer or scorers["prior"])
    if not corrected:
        return plain
    train, held_out = split_by_text(
        with_gold(plain.propose(corrected), corrected), share=0.2, seed=0
    )
    model = Reranker.fit(scorers, train, held_out, graph_hash=graph.content_hash)
    return Pipeline(mentions, source, model, Decision(nil_score=0.0, nil_below=0.5))


def tagger(corrected: Sequence[LinkedText]) -> Tagger:
    """A tagger of names of diseases and drugs, from what was corrected."""
    marked = [
        MarkedText(t.text, tuple((k.mention.start, k.mention.end, "NAME") for k in t.links))
        for t in corrected
    ]
    return train_tagger([m for i, m in enumerate(marked) if i % 5], marked[::5])


def articles(root: Path) -> list[str]:
    """The paragraphs of COVID-QA with 20 words or more."""
    rows = json_of(root / "qa/covid_qa/200423_covidQA.json")["data"]
    contexts = [part["context"] for each in rows for part in each["paragraphs"]]
    paragraphs = [p.strip() for context in contexts for p in context.split("\n\n")]
    return [paragraph for paragraph in paragraphs if len(paragraph.split()) >= 20]


def linked_articles(paragraphs: Sequence[str], linker: Pipeline) -> dict[str, float]:
    """How many links there are, of how many entities, how sure, and what a paragraph takes."""
    linked, spent = timed(lambda: linker.link(paragraphs))
    links = [link for text in linked for link in text.links]
    accepted = [link for link in links if link.entity is not None]
    corrected = [k for k in accepted if k.candidates[0].reason.startswith("read as")]
    return {
        "links": len(accepted),
        "entities": len({link.entity for link in accepted}),
        "of misspelt names": len(corrected),
        "refused": len(links) - len(accepted),
        "mean confidence": sum(link.confidence for link in accepted) / max(len(accepted), 1),
        "ms a paragraph": 1000 * spent / len(paragraphs),
    }


def scores(
    linked_texts: Sequence[LinkedText],
    gold: Sequence[LinkedText],
    kinds: dict[tuple[str, Mention], str],
    listed: Sequence[str] = (*KINDS, ELSEWHERE),
) -> dict[str, dict[str, float]]:
    """By kind of mention what became of it, and how sure links were; and what nobody marked."""
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in {*listed, *KINDS, ELSEWHERE}}
    sure: dict[str, list[float]] = {kind: [] for kind in counts}
    for expected, linked in zip(gold, linked_texts, strict=True):
        answers = {link.mention: link for link in linked.links}
        marked = [link.mention for link in expected.links]
        for link in linked.links:
            if link.entity is not None and not any(_overlap(link.mention, m) for m in marked):
                counts[ELSEWHERE]["wrong"] += 1
                sure[ELSEWHERE].append(link.confidence)
        for link in expected.links:
            kind = kinds[expected.id, link.mention]
            answer = answers.get(link.mention)
            if answer is None:
                counts[kind]["not found"] += 1
            elif answer.entity is None:
                counts[kind]["refused"] += 1
            else:
                counts[kind]["right" if answer.entity == link.entity else "wrong"] += 1
                sure[kind].append(answer.confidence)
    return {
        kind: {
            **{name: of_kind[name] for name in ("right", "wrong", "refused", "not found")},
            "mean confidence": sum(sure[kind]) / max(len(sure[kind]), 1),
        }
        for kind, of_kind in ((kind, counts[kind]) for kind in listed)
    }


def among_homonyms(
    root: Path, gold: Sequence[LinkedText], kinds: dict[tuple[str, Mention], str]
) -> tuple[int, dict[str, dict[str, dict[str, float]]]]:
    """How many pairs of names became one, and what becomes of their mentions."""
    renamed, texts, of_kind = conflated(gold, kinds, seed=0)
    graph = graph_of(root, renamed)
    corrected, others = halves(texts)
    trained = linker(graph, corrected)
    n = sum(len(text.links) for text in corrected)
    rows = {
        "names + prior": linker(graph),
        "the mix that needs no training": linker(graph, scorer=default_mix(graph)),
        f"after {n:,} corrections": trained,
    }
    words = [text.text for text in others]
    return len(renamed), {
        row: scores(row_linker.link(words), others, of_kind, (HOMONYM, "label"))
        for row, row_linker in rows.items()
    }


def _overlap(one: Mention, other: Mention) -> bool:
    return one.start < other.end and other.start < one.end


def _by_kind(scores: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    counts = ("right", "wrong", "refused", "not found")
    rows = [
        [row, kind, *(str(of_kind[name]) for name in counts), f"{of_kind['mean confidence']:.2f}"]
        for row, by_kind in scores.items()
        for kind, of_kind in by_kind.items()
    ]
    return Table(["linker", "mention", *counts, "mean confidence"], rows).compact()


def _number(value: float) -> str:
    return f"{value:.2f}" if isinstance(value, float) else f"{value:,}"


class HalfCorrected:
    """The private graph, and documents of which a person corrects the links of one half."""

    def __init__(self, root: Path) -> None:
        self.root, self.graph = root, graph_of(root)
        self.gold, self.kinds = gold_texts(root)
        self.corrected, self.others = halves(self.gold)

    def scores(self, linker: Linker) -> dict[str, dict[str, float]]:
        """Return the scores of a linker on the other half."""
        linked = linker.link([text.text for text in self.others])
        return scores(linked, self.others, self.kinds)

    def share(self, share: float) -> list[LinkedText]:
        """Return a share of the corrected documents."""
        return [t for t in self.corrected if uniform_value(0, f"corrected {t.id}") < share]


def halves(texts: Sequence[LinkedText]) -> tuple[list[LinkedText], list[LinkedText]]:
    """Return the texts that are corrected, and those on which linkers are judged."""
    parts: tuple[list[LinkedText], list[LinkedText]] = ([], [])
    for text in texts:
        parts[uniform_value(0, f"half {text.id}") >= 0.5].append(text)
    return parts


def timed(make: Callable[[], T]) -> tuple[T, float]:
    """Return what is made, and the processor seconds that it took."""
    began = time.process_time()
    return make(), time.process_time() - began


def all_scores(world: HalfCorrected) -> tuple[Scores, dict[str, dict[str, float]]]:
    """Return the scores before and after corrections, and of articles that nobody marked."""
    graph, plain = world.graph, linker(world.graph)
    arguments = scores(plain.disambiguate(world.others), world.others, world.kinds)
    rows: Scores = {
        "before": world.scores(plain),
        "before, mentions given": arguments,
        "before, misspelt names too": world.scores(linker(graph, misspelt=True)),
    }
    for share in (0.1, 1.0):
        some = world.share(share)
        trained, spent = timed(partial(linker, graph, some))
        n = sum(len(text.links) for text in some)
        name = f"after {n:,} corrections in {len(some):,} documents, learnt in {spent:.0f} s"
        rows[name] = world.scores(trained)
    with_typos = linker(graph, some, misspelt=True)
    rows[f"{name}, misspelt names too"] = world.scores(with_typos)
    paragraphs = articles(world.root)
    unmarked = {
        "before": linked_articles(paragraphs, plain),
        "before, misspelt names too": linked_articles(paragraphs, linker(graph, misspelt=True)),
        "after all corrections": linked_articles(paragraphs, trained),
        "after all corrections, misspelt names too": linked_articles(paragraphs, with_typos),
    }
    some = world.share(TRAINING_SHARE)
    finder, spent = timed(partial(tagger, some))
    for name, base in (("before", plain), ("after all corrections", trained)):
        whole = EndToEnd(NamesAndTagger(base.mentions, finder), base)
        row = f"{name}, a tagger trained on {len(some):,} documents in {spent:.0f} s"
        rows[row] = world.scores(whole)
    return rows, unmarked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--out", type=Path, required=True)
    out, world = parser.parse_args().out, HalfCorrected(data_root())
    marked, unmarked = all_scores(world)
    n_pairs, homonyms = among_homonyms(world.root, world.gold, world.kinds)
    cells = [
        [row, *map(_number, scores_of_row.values())] for row, scores_of_row in unmarked.items()
    ]
    about = (
        f"{world.graph.n_entities:,} entities, one name each, {world.graph.n_triples:,} triples; "
        f"{len(world.others):,} documents are judged, none of which was corrected."
    )
    text = page_of(
        "A private graph", "", about,
        _by_kind(marked),
        f"Homonyms: {n_pairs} pairs of names that the texts often use made one:",
        _by_kind(homonyms),
        f"{len(articles(world.root)):,} paragraphs of COVID-QA, where nothing is marked:",
        Table(["linker", *unmarked["before"]], cells),
    )  # fmt: skip
    values = {"marked": marked, "homonyms": homonyms, "COVID-QA": unmarked}
    out.mkdir(parents=True, exist_ok=True)
    write_results(out, text, values, "medical")


if __name__ == "__main__":
    main()
