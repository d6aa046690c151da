"""kept's links in spaCy Docs."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import pytest

spacy = pytest.importorskip("spacy", reason="the extra spacy is not installed")

from spacy.tokens import Doc, Span  # noqa: E402

from entity_linking import DictionaryLinker, LinkingError  # noqa: E402
from entity_linking.errors import LinkIndexError  # noqa: E402
from kept.linking.linkers import LinkerSettings, open_linker  # noqa: E402
from kept.linking.spacy_component import NIL, Annotator, Policy, linked_text_of  # noqa: E402
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records  # noqa: E402

ROOT = Path(__file__).parents[3]
TEXT = "The Seine flows through Paris 👩‍💻, capital of France."


@pytest.fixture(scope="module")
def kg(small_graph: KnowledgeGraph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("spacy") / "kg"
    small_graph.save(folder)
    return folder


def pipeline(kg: Path, **config: Any) -> Any:
    import_module("kept.linking.spacy_factory")  # spaCy does so once the package is installed
    nlp = spacy.blank("en")
    nlp.add_pipe("kept_linker", config={"kg": str(kg), **config})
    return nlp


def annotator(graph: KnowledgeGraph, policy: Policy) -> Annotator:
    return Annotator(DictionaryLinker(graph), policy, settings={"case": "smart"}, graph_hash="abc")


def with_ents(*spans: tuple[int, int, str], text: str = TEXT) -> Doc:
    doc = spacy.blank("en")(text)
    doc.ents = [Span(doc, start, end, label=label) for start, end, label in spans]
    return doc


def test_the_entry_point_is_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module, name = project["entry-points"]["spacy_factories"]["kept_linker"].split(":")
    assert callable(getattr(import_module(module), name))


def test_plain_text_gets_entities(kg: Path, small_graph: KnowledgeGraph) -> None:
    doc = pipeline(kg)(TEXT)
    expected = open_linker(LinkerSettings(kg=str(kg)), small_graph).link([TEXT])[0].links
    assert [(ent.text, ent.label_, ent.kb_id_) for ent in doc.ents] == [
        ("Seine", "KEPT", "Q1471"), ("Paris", "KEPT", "Q90"), ("France", "KEPT", "Q142"),
    ]  # fmt: skip
    assert tuple(ent._.kept_link for ent in doc.ents) == expected
    assert [span.kb_id_ for span in doc.spans["kept"]] == ["Q1471", "Q90", "Q142"]
    assert doc[0:1]._.kept_link is None
    assert doc._.kept_lost == 0


def test_entities_have_the_types_of_the_graph(tmp_path: Path) -> None:
    records = [
        Triple("Q1", "P1", "Q2"), Text("Q1", TextKind.LABEL, "Paris"),
        Text("Q1", TextKind.TYPE, "city"), Text("Q1", TextKind.TYPE, "capital"),
        Text("Q2", TextKind.LABEL, "Berlin"),
    ]  # fmt: skip
    graph_from_records(records).save(tmp_path / "kg")
    doc = pipeline(tmp_path / "kg", typed=True)("From Paris to Berlin")
    assert [(ent.text, ent.label_, ent.kb_id_) for ent in doc.ents] == [
        ("Paris", "capital", "Q1"), ("Berlin", "KEPT", "Q2"),
    ]  # fmt: skip
    plain = pipeline(tmp_path / "kg")("From Paris to Berlin")
    assert {ent.label_ for ent in plain.ents} == {"KEPT"}


def test_entities_of_others_are_linked(small_graph: KnowledgeGraph) -> None:
    doc = with_ents((0, 2, "LOC"), (2, 3, "ACT"), (4, 5, "GPE"))
    doc = annotator(small_graph, Policy())(doc)
    assert [(ent.text, ent.label_, ent.kb_id_) for ent in doc.ents] == [
        ("The Seine", "LOC", "Q1471"), ("flows", "ACT", NIL), ("Paris", "GPE", "Q90"),
    ]  # fmt: skip
    assert doc.ents[1]._.kept_link.entity is None
    assert len(doc.spans["kept"]) == 3


def test_ours_join_where_nothing_overlaps(small_graph: KnowledgeGraph) -> None:
    doc = annotator(small_graph, Policy(add=True))(with_ents((0, 2, "LOC"), (4, 5, "GPE")))
    assert [(ent.text, ent.label_, ent.kb_id_) for ent in doc.ents] == [
        ("The Seine", "LOC", "Q1471"), ("Paris", "GPE", "Q90"), ("France", "KEPT", "Q142"),
    ]  # fmt: skip
    assert [span.text for span in doc.spans["kept"]] == ["The Seine", "Paris", "France"]


def test_entities_can_be_left_alone(small_graph: KnowledgeGraph) -> None:
    doc = annotator(small_graph, Policy(use_ents=False))(with_ents((0, 2, "LOC")))
    assert [(ent.text, ent.label_, ent.kb_id_) for ent in doc.ents] == [
        ("The Seine", "LOC", ""), ("Paris", "KEPT", "Q90"), ("France", "KEPT", "Q142"),
    ]  # fmt: skip
    assert [span.text for span in doc.spans["kept"]] == ["Seine", "Paris", "France"]


@pytest.mark.parametrize(
    ("mode", "spans", "n_lost"),
    [("strict", [], 2), ("contract", [], 2), ("expand", ["Paris-Berlin"], 1)],
)
def test_what_fits_no_token_is_counted(mode: Any, spans: list[str], n_lost: int) -> None:
    graph = graph_from_records(
        [Text("Q90", TextKind.LABEL, "Paris"), Text("Q64", TextKind.LABEL, "Berlin")]
    )
    nlp = spacy.blank("en")
    doc = Doc(nlp.vocab, ["in", "Paris-Berlin"])
    doc = annotator(graph, Policy(alignment_mode=mode))(doc)
    assert [span.text for span in doc.spans["kept"]] == [
        s.replace("xParisB", "Paris-B") for s in spans
    ]
    assert doc._.kept_lost == n_lost


def test_a_batch_is_its_docs(kg: Path) -> None:
    nlp = pipeline(kg)
    texts = [TEXT, "", "In Berlin.", "nothing"] * 3
    alone = [[(e.text, e.kb_id_) for e in nlp(text).ents] for text in texts]
    for size in (1, 5, 100):
        together = nlp.pipe(texts, batch_size=size)
        assert [[(e.text, e.kb_id_) for e in doc.ents] for doc in together] == alone


def test_docs_and_pipelines_travel(kg: Path, tmp_path: Path) -> None:
    nlp = pipeline(kg, label="PLACE")
    doc = nlp(TEXT)
    again = Doc(nlp.vocab).from_bytes(doc.to_bytes())
    assert [e._.kept_link for e in again.ents] == [e._.kept_link for e in doc.ents]
    nlp.to_disk(tmp_path / "nlp")
    loaded = spacy.load(tmp_path / "nlp")
    assert next((e.kb_id_, e.label_) for e in loaded(TEXT).ents) == ("Q1471", "PLACE")
    other = pipeline(kg).from_bytes(nlp.to_bytes())
    assert other(TEXT).ents[0].label_ == "PLACE"


def test_another_graph_or_method_is_told(small_graph: KnowledgeGraph, tmp_path: Path) -> None:
    component = annotator(small_graph, Policy())
    saved = msgspec.json.decode(component.to_bytes())
    for change, message in (
        ({"graph_hash": "xyz"}, "made with graph xyz"),
        ({"settings": {"case": "sensitive"}}, "another case"),
        ({"policy": {"alignment_mode": "loud"}}, "alignment_mode"),
    ):
        with pytest.raises(LinkingError, match=message):
            component.from_bytes(msgspec.json.encode(saved | change))
    with pytest.raises(LinkIndexError, match="is not there"):
        component.from_disk(tmp_path)
    with pytest.raises(LinkIndexError, match="save the pipeline again"):
        component.from_bytes(b"{")


def test_a_cache_answers(kg: Path, tmp_path: Path) -> None:
    first = [e.kb_id_ for e in pipeline(kg, cache=str(tmp_path / "cache"))(TEXT).ents]
    assert (tmp_path / "cache" / "links.sqlite").is_file()
    assert [e.kb_id_ for e in pipeline(kg, cache=str(tmp_path / "cache"))(TEXT).ents] == first


def test_spans_as_mentions(kg: Path) -> None:
    doc = pipeline(kg)(TEXT)
    linked = linked_text_of(doc)
    assert [link.entity for link in linked.links] == ["Q1471", "Q90", "Q142"]
    assert [linked.text[m.start : m.end] for m in (link.mention for link in linked.links)] == [
        "Seine", "Paris", "France",
    ]  # fmt: skip
    with pytest.raises(LinkingError, match="add a parser"):
        linked_text_of(doc, "noun_chunks")
    with pytest.raises(LinkingError, match="use is 'verbs'"):
        linked_text_of(doc, "verbs")  # type: ignore[arg-type]


def test_noun_chunks() -> None:
    nlp = spacy.blank("en")
    doc = Doc(
        nlp.vocab,
        ["Big", "cities", "sleep", "."],
        pos=["ADJ", "NOUN", "VERB", "PUNCT"],
        heads=[1, 2, 2, 2],
        deps=["amod", "nsubj", "ROOT", "punct"],
    )
    (link,) = linked_text_of(doc, "noun_chunks").links
    assert doc.text[link.mention.start : link.mention.end] == "Big cities"


@pytest.mark.parametrize("wrong", [{"alignment_mode": "loud"}, {"label": ""}])
def test_wrong_policies_are_told(wrong: dict[str, Any]) -> None:
    with pytest.raises(LinkingError):
        Policy(**wrong)


def test_without_spacy_the_remedy_is_named() -> None:
    code = (
        "import sys; sys.modules['spacy'] = None\n"
        "import kept, entity_linking\n"
        "try:\n    import kept.linking.spacy_factory\n"
        "except entity_linking.LinkingError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'kept[spacy]'" in done.stdout
