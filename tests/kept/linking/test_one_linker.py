"""Every interface that links without further settings gives the same links."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import kept
from entity_linking import LinkedText, read_jsonl
from entity_linking.mentions import Link
from kept.apps.cli import app
from kept.auto import AutoEncoder
from kept.graphs import builder
from kept.lab.demo import atlas as demo
from kept.training.finetuning.assembly import read_sets
from kept.training.finetuning.config import FinetuneConfig
from kg_loaders import KnowledgeGraph, Triple, atlas, graph_from_records
from kg_loaders.damage import DamageReport

Links = dict[str, tuple[Link, ...]]
N_SHOWN = 3
MADE = [
    "The French and the English sail down the Seine to PARIS 👩‍💻, the capital of France.",
    "A Parisian in New York can see Germany's rivers; Berlim is a slip.",
    "No name stands here.",
]
"""Demonyms, articles, capitals, possessives, stop words, signs of two code units."""


class Place:
    """A graph, its folder, a tiny host and a folder for what a door writes."""

    def __init__(self, graph: KnowledgeGraph, host: Path, folder: Path) -> None:
        self.graph, self.host, self.folder = graph, host, folder
        self.kg = folder / "kg"
        graph.save(self.kg)


def of(linked: Sequence[LinkedText]) -> Links:
    return {text.text: text.links for text in linked}


def run(*flags: object) -> None:
    done = CliRunner().invoke(app, [*map(str, flags)])
    assert done.exit_code == 0, done.output


def by_quick_start(place: Place, texts: list[str], _: pytest.MonkeyPatch) -> Links:
    return of(kept.DictionaryLinker(place.graph).link(texts))


def by_encode(place: Place, texts: list[str], _: pytest.MonkeyPatch) -> Links:
    short = builder.BuilderConfig(max_words=24, max_neighbours=1)
    encoder = AutoEncoder.from_host("kbert", place.host, place.graph, builder=short)
    return of([encoded.linked for encoded in encoder.encode(texts, place.kg).texts])


def by_show(place: Place, texts: list[str], patch: pytest.MonkeyPatch) -> Links:
    seen: list[LinkedText] = []
    build = builder.build

    def recording(linked: LinkedText, *args: Any, **options: Any) -> Any:
        seen.append(linked)
        return build(linked, *args, **options)

    patch.setattr(builder, "build", recording)
    for i, text in enumerate(texts[:N_SHOWN]):
        page = place.folder / f"{i}.svg"
        run("show", text, "--kg", place.kg, "--tokenizer", place.host, "-o", page)
    return of(seen)


def by_demo(place: Place, texts: list[str], patch: pytest.MonkeyPatch) -> Links:
    """The demo has texts of its own, a part of those that all doors are asked."""
    found: list[LinkedText] = []
    score = demo.score_links

    def recording(gold: Sequence[LinkedText], linked: Sequence[LinkedText]) -> Any:
        found.extend(linked)
        return score(gold, linked)

    patch.setattr(demo, "score_links", recording)
    demo._link_scores(place.graph)
    return {text: links for text, links in of(found).items() if text in texts}


def by_finetune(place: Place, texts: list[str], _: pytest.MonkeyPatch) -> Links:
    rows = [f"{i % 2}\t{text}" for i, text in enumerate(texts)]
    (place.folder / "task.tsv").write_text("\n".join(rows), encoding="utf-8")
    values = {"task": "classification", "format": "tsv", "train": place.folder / "task.tsv"}
    values |= {"kg": place.kg, "link": True, "method": "kbert", "host": str(place.host)}
    values |= {"training": {"steps": 1, "batch_size": 4}}
    sets, _ = read_sets(FinetuneConfig.read(None, values), KnowledgeGraph.open(place.kg))
    return of([example.linked for examples in sets.values() for example in examples])


def by_command(place: Place, texts: list[str], _: pytest.MonkeyPatch) -> Links:
    (place.folder / "texts.txt").write_text("\n".join(texts), encoding="utf-8")
    out = place.folder / "links.jsonl"
    run("link", place.folder / "texts.txt", "--kg", place.kg, "-o", out, "--candidates", "all")
    return of(list(read_jsonl(out, DamageReport())))


def by_spacy(place: Place, texts: list[str], _: pytest.MonkeyPatch) -> Links:
    spacy = pytest.importorskip("spacy", reason="the extra spacy is not installed")
    import_module("kept.linking.spacy_factory")
    nlp = spacy.blank("en")
    nlp.add_pipe("kept_linker", config={"kg": str(place.kg)})
    docs = list(nlp.pipe(texts))
    assert not any(doc._.kept_lost for doc in docs)
    return {doc.text: tuple(s._.kept_link for s in doc.spans["kept"]) for doc in docs}


DOORS: tuple[Callable[[Place, list[str], pytest.MonkeyPatch], Links], ...] = (
    by_quick_start, by_encode, by_show, by_demo, by_finetune, by_command, by_spacy,
)  # fmt: skip


@pytest.mark.parametrize("named", [True, False])
def test_seven_doors_one_linker(
    named: bool, host: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = atlas.graph()
    if not named:
        facts = [Triple("Paris", "lies_in", "France"), Triple("New_York", "is_a", "city")]
        graph = graph_from_records(facts)
    sentences = dict.fromkeys(sentence.text for sentence in atlas.sentences("test"))
    texts = [*MADE, *list(sentences)[:40]]
    expected: Links = {}
    for door in DOORS:
        (tmp_path / door.__name__).mkdir()
        found = door(Place(graph, host, tmp_path / door.__name__), texts, monkeypatch)
        assert len(found) >= (N_SHOWN if door is by_show else 40), door.__name__
        expected = expected or found
        assert found == {text: expected[text] for text in found}, door.__name__
    assert len(expected) == len(texts)
    linked = [link for links in expected.values() for link in links]
    assert len(linked) > (40 if named else 1)
    if named:
        assert any(len(link.candidates) > 1 for link in linked)
