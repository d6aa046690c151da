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
SENTENCES = [
    "The French and the English sail down the Seine to PARIS 👩‍💻, the capital of France.",
    "A Parisian in New York can see Germany's rivers; Berlim is a slip.",
    "No name stands here.",
]
"""Demonyms, articles, capitals, possessives, stop words, signs of two code units."""


class Inputs:
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


def by_quick_start(inputs: Inputs, texts: list[str], _: pytest.MonkeyPatch) -> Links:
    return of(kept.DictionaryLinker(inputs.graph).link(texts))


def by_encode(inputs: Inputs, texts: list[str], _: pytest.MonkeyPatch) -> Links:
    short = builder.BuilderConfig(max_words=24, max_neighbours=1)
    encoder = AutoEncoder.from_host("kbert", inputs.host, inputs.graph, builder=short)
    return of([encoded.linked for encoded in encoder.encode(texts, inputs.kg).texts])


def by_show(inputs: Inputs, texts: list[str], patch: pytest.MonkeyPatch) -> Links:
    seen: list[LinkedText] = []
    build = builder.build

    def recording(linked: LinkedText, *args: Any, **options: Any) -> Any:
        seen.append(linked)
        return build(linked, *args, **options)

    patch.setattr(builder, "build", recording)
    for i, text in enumerate(texts[:N_SHOWN]):
        page = inputs.folder / f"{i}.svg"
        run("show", text, "--kg", inputs.kg, "--tokenizer", inputs.host, "-o", page)
    return of(seen)


def by_demo(inputs: Inputs, texts: list[str], patch: pytest.MonkeyPatch) -> Links:
    """The demo has texts of its own, a part of those that all doors are asked."""
    texts_linked: list[LinkedText] = []
    score = demo.score_links

    def recording(gold: Sequence[LinkedText], linked: Sequence[LinkedText]) -> Any:
        texts_linked.extend(linked)
        return score(gold, linked)

    patch.setattr(demo, "score_links", recording)
    demo._link_scores(inputs.graph)
    return {text: links for text, links in of(texts_linked).items() if text in texts}


def by_finetune(inputs: Inputs, texts: list[str], _: pytest.MonkeyPatch) -> Links:
    rows = [f"{i % 2}\t{text}" for i, text in enumerate(texts)]
    (inputs.folder / "task.tsv").write_text("\n".join(rows), encoding="utf-8")
    values = {"task": "classification", "format": "tsv", "train": inputs.folder / "task.tsv"}
    values |= {"kg": inputs.kg, "link": True, "method": "kbert", "host": str(inputs.host)}
    values |= {"training": {"steps": 1, "batch_size": 4}}
    sets, _ = read_sets(FinetuneConfig.read(None, values), KnowledgeGraph.open(inputs.kg))
    return of([example.linked for examples in sets.values() for example in examples])


def by_command(inputs: Inputs, texts: list[str], _: pytest.MonkeyPatch) -> Links:
    (inputs.folder / "texts.txt").write_text("\n".join(texts), encoding="utf-8")
    out = inputs.folder / "links.jsonl"
    run("link", inputs.folder / "texts.txt", "--kg", inputs.kg, "-o", out, "--candidates", "all")
    return of(list(read_jsonl(out, DamageReport())))


def by_spacy(inputs: Inputs, texts: list[str], _: pytest.MonkeyPatch) -> Links:
    spacy = pytest.importorskip("spacy", reason="the extra spacy is not installed")
    import_module("kept.linking.spacy_factory")
    nlp = spacy.blank("en")
    nlp.add_pipe("kept_linker", config={"kg": str(inputs.kg)})
    docs = list(nlp.pipe(texts))
    assert not any(doc._.kept_lost for doc in docs)
    return {doc.text: tuple(s._.kept_link for s in doc.spans["kept"]) for doc in docs}


ENTRY_POINTS: tuple[Callable[[Inputs, list[str], pytest.MonkeyPatch], Links], ...] = (
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
    texts = [*SENTENCES, *list(sentences)[:40]]
    expected: Links = {}
    for entry_point in ENTRY_POINTS:
        (tmp_path / entry_point.__name__).mkdir()
        links = entry_point(
            Inputs(graph, host, tmp_path / entry_point.__name__), texts, monkeypatch
        )
        assert len(links) >= (N_SHOWN if entry_point is by_show else 40), entry_point.__name__
        expected = expected or links
        assert links == {text: expected[text] for text in links}, entry_point.__name__
    assert len(expected) == len(texts)
    linked = [link for links in expected.values() for link in links]
    assert len(linked) > (40 if named else 1)
    if named:
        assert any(len(link.candidates) > 1 for link in linked)
