"""GLiNER as a tagger: by its own interface, and with a tiny random model where it is installed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from entity_linking.detection import EndToEnd, NamesAndTagger, Span
from entity_linking.errors import LinkingError
from kept import atlas
from kept.errors import MissingExtraError
from kept.linking.linkers import LinkerSettings, linker_key, open_linker, open_pipeline
from kept.linking.tagging import open_tagger
from kept.linking.tagging.gliner_entities import LEAST, GlinerTagger, types_in_words
from kg_loaders import KnowledgeGraph
from tests.kept.training.tiny_pretraining import write_host

TEXT = "The new Elsby tunnel leads from Paris to Elsby."


class Answers:
    """What answers as GLiNER does: the spans of one text, as its caller asks for them."""

    def __init__(self, *spans: tuple[str, str, float]) -> None:
        self._spans, self.calls = spans, list[dict[str, Any]]()

    def inference(
        self, texts: list[str], labels: list[str], flat_ner: bool = True, threshold: float = 0.5
    ) -> list[list[dict[str, Any]]]:
        self.calls.append({"labels": labels, "flat_ner": flat_ner, "threshold": threshold})
        return [
            [
                {"start": text.find(words), "end": text.find(words) + len(words), "text": words,
                 "label": label, "score": score}
                for words, label, score in self._spans
                if label in labels and score >= threshold and words in text
            ]
            for text in texts
        ]  # fmt: skip


def test_the_best_spans_that_do_not_overlap() -> None:
    model = Answers(
        ("Elsby tunnel", "tunnel", 0.9), ("Elsby", "city", 0.7), ("Paris", "city", 0.4),
        ("Paris", "human", 0.8), ("tunnel", "weapon", 1.0),
    )  # fmt: skip
    tagger = GlinerTagger(model, ["tunnel", "city", "human", "tunnel"])
    assert tagger.kinds == ("tunnel", "city", "PERSON")
    first, second = tagger.tag([TEXT, "nothing here"])
    assert first.spans == (Span(8, 20, "tunnel", 0.9), Span(32, 37, "PERSON", 0.8))
    assert [first.score(*ends) for ends in ((8, 13), (32, 37), (0, 3))] == [0.7, 0.8, 0.0]
    assert second.spans == ()
    assert model.calls == [
        {"labels": ["tunnel", "city", "human"], "flat_ner": False, "threshold": LEAST}
    ]
    assert tagger.tag([]) == []


def test_a_name_that_no_graph_has_is_a_mention() -> None:
    graph = atlas.graph()
    pipeline = open_pipeline(LinkerSettings(kg="a graph in memory"), graph)
    model = Answers(("Elsby tunnel", "tunnel", 0.9), ("Paris", "city", 0.8))
    tagger = GlinerTagger(model, ["tunnel", "city"])
    linker = EndToEnd(NamesAndTagger(pipeline.mentions, tagger), pipeline)
    (linked,) = linker.link([TEXT])
    assert [(link.start, link.entity) for link in linked.links] == [(8, None), (32, "Q90")]
    (detected,) = linker.detect([TEXT])
    assert detected.kinds == ("tunnel", "city")


@pytest.mark.parametrize("types", [[], [""], ["city", " "]])
def test_types_are_needed(types: list[str]) -> None:
    with pytest.raises(LinkingError, match="name one type or more"):
        GlinerTagger(Answers(), types)


def test_the_types_of_a_graph_in_words() -> None:
    assert types_in_words(atlas.graph(), 3) == ("city", "human", "country")


def test_without_the_package_the_error_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gliner", None)
    with pytest.raises(MissingExtraError, match="pip install gliner"):
        open_tagger("gliner:anywhere=city")


def test_the_key_of_a_linker_is_that_of_its_files(tmp_path: Path) -> None:
    graph, model = atlas.graph(), tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")

    def key(tagger: str) -> str:
        return linker_key(LinkerSettings(kg="kg", tagger=tagger), graph)

    before = key(f"gliner:{model}=city")
    assert key(f"gliner:{model}=river") != before
    moved = model.rename(tmp_path / "elsewhere")
    assert key(f"gliner:{moved}=city") == before
    (moved / "config.json").write_text("{ }")
    assert key(f"gliner:{moved}=city") != before


def test_a_model_of_gliner_itself(tmp_path: Path) -> None:
    library = pytest.importorskip("gliner", reason="GLiNER is not installed")
    config = {
        "model_name": str(write_host(tmp_path / "host")), "hidden_size": 16, "max_width": 4,
        "max_len": 48, "span_mode": "markerV0", "dropout": 0.0,
    }  # fmt: skip
    model = library.GLiNER.from_config(config)
    model.save_pretrained(str(tmp_path / "gliner"))
    graph = atlas.graph()
    settings = LinkerSettings(kg="kg", tagger=f"gliner:{tmp_path / 'gliner'}=city,human")
    (linked,) = open_linker(settings, graph).link([TEXT])
    assert linked.text == TEXT
    facts = [("Ulm", "instance of", "city"), ("Ann", "instance of", "human")]
    tagger = open_tagger(f"gliner:{tmp_path / 'gliner'}", KnowledgeGraph.from_triples(facts))
    assert tagger.kinds == ("city", "PERSON")
    (names,) = tagger.tag([TEXT])
    predictions = model.inference([TEXT], ["city", "human"], flat_ner=False, threshold=LEAST)
    assert predictions[0]
    for each in predictions[0]:
        assert names.score(each["start"], each["end"]) >= each["score"]
    with pytest.raises(LinkingError, match="GLiNER cannot open"):
        open_tagger(f"gliner:{tmp_path / 'nowhere'}=city")
