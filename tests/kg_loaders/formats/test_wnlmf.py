"""WN-LMF: synsets, the lemmas of their senses, and relations of both."""

from __future__ import annotations

from pathlib import Path

import pytest

from kg_loaders import DamageReport, KgError, Source, SourceError, Text, TextKind, Triple, load
from kg_loaders.build import resolve_format
from kg_loaders.errors import BudgetError
from kg_loaders.formats.wnlmf import read

CORPUS = Path(__file__).parents[2] / "fuzz/corpus/wnlmf/dog.xml"
SYNSETS = [("w-1", "hypernym", "w-2")]
LEXICON = '<LexicalResource><Lexicon language="pt_BR">{}</Lexicon></LexicalResource>'
ENTRY = (
    '<LexicalEntry id="e{0}"><Lemma writtenForm="{0}"/><Sense id="s{0}" synset="{1}"/>'
    "</LexicalEntry>"
)


@pytest.mark.parametrize(
    ("lexical", "expected"),
    [
        ("senses", [
            *SYNSETS, ("s-dog", "derivation", "s-doggy"), ("s-dog", "sense_of", "w-1"),
            ("s-doggy", "sense_of", "w-3"), ("s-dog", "slang_of", "w-2"),
        ]),
        ("synsets", [*SYNSETS, ("w-1", "derivation", "w-3"), ("w-1", "slang_of", "w-2")]),
    ],
)  # fmt: skip
def test_everything(lexical: str, expected: list[tuple[str, str, str]]) -> None:
    report = DamageReport()
    records = list(read(CORPUS, report, lexical=lexical))  # type: ignore[arg-type]
    assert [record for record in records if isinstance(record, Triple)] == expected
    texts = [record for record in records if isinstance(record, Text)]
    assert [text for text in texts if not text.is_relation] == [
        Text("w-1", TextKind.TYPE, "noun"), Text("w-1", TextKind.TYPE, "noun.animal"),
        Text("w-1", TextKind.DESCRIPTION, "It & barks.", "en"),
        Text("w-2", TextKind.TYPE, "noun"), Text("w-2", TextKind.DESCRIPTION, "lives", "en"),
        Text("w-3", TextKind.TYPE, "adj.satellite"),
        Text("w-1", TextKind.LABEL, "hound", "en"), Text("w-1", TextKind.ALIAS, "dog", "en", 7),
        Text("w-3", TextKind.LABEL, "doggy", "en"),
    ]  # fmt: skip
    assert ("sense_of", "sense of") in {(text.node, text.value) for text in texts} or (
        lexical == "synsets"
    )
    assert report.skipped == {
        "Pronunciation": 1, "Form": 1, "Example": 2, "ILIDefinition": 1, "SyntacticBehaviour": 1,
    }  # fmt: skip
    load([Source(CORPUS, "wnlmf", {"lexical": lexical})])[1].check()


def test_the_first_bytes_show_it(tmp_path: Path) -> None:
    for name in ("x.xml", "x.txt", "x"):
        (tmp_path / name).write_bytes(CORPUS.read_bytes())
        assert resolve_format(tmp_path / name) == ("wnlmf", {})


def test_languages(tmp_path: Path) -> None:
    path = tmp_path / "x.xml"
    body = ENTRY.format("cão", "a") + (
        '<Synset id="a"><Definition language="en">a dog</Definition>'
        "<Definition>um cão</Definition></Synset>"
    )
    path.write_text(LEXICON.format(body))
    graph, report = load([path], languages=["en"])
    assert (graph["a"].label, graph["a"].description) == ("a", "a dog")
    assert report.skipped == {"text in another language": 2}
    graph, _ = load([path], languages=["pt"])
    assert (graph["a"].label, graph["a"].description) == ("cão", "um cão")


@pytest.mark.parametrize(
    ("part", "reason", "n_rejected"),
    [
        ('<LexicalEntry id="e"><Sense id="s" synset="a"/></LexicalEntry>', "no lemma", 1),
        (ENTRY.format("x", ""), "a sense without an id or a synset", 1),
        ('<Synset partOfSpeech="n"/>', "no id", 1),
        ('<Synset id="b"><SynsetRelation target="a"/></Synset>', "without a type or a target", 1),
        (ENTRY.format("x", "a").replace("/></Lex", '><SenseRelation relType="r"/></Sense></Lex'),
         "without a type or a target", 1),
        ("<Synset", "no XML", 1),
        (ENTRY.format("x", "a").replace(
            "/></Lex", '><SenseRelation relType="r" target="no"/></Sense></Lex'), "", 0),
        ('<Synset id="b"/>', "", 0),
    ],
)  # fmt: skip
def test_damage_costs_its_part(tmp_path: Path, part: str, reason: str, n_rejected: int) -> None:
    path = tmp_path / "x.xml"
    path.write_text(LEXICON.format(ENTRY.format("dog", "a") + part))
    graph, report = load([path], policy="skip")
    assert graph["a"].label == "dog"
    assert report.n_rejected == n_rejected
    if n_rejected:
        with pytest.raises(KgError, match=f"x.xml, line .*{reason}"):
            load([path])


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("<Lexicon/>", SourceError, "is not WN-LMF"),
        ("<LexicalResource><Lexicon>" + "<a>" * 300, BudgetError, "the limit depth is 256"),
        ('<!DOCTYPE a [<!ENTITY b "x"><!ENTITY c "&b;&b;">]><LexicalResource/>', BudgetError,
         "the limit entities is 0"),
        ("<LexicalResource/>", SourceError, "no triple and no text was found"),
    ],
)  # fmt: skip
def test_what_is_refused(tmp_path: Path, text: str, error: type[Exception], message: str) -> None:
    (tmp_path / "x.xml").write_text(text)
    with pytest.raises(error, match=message):
        load([Source(tmp_path / "x.xml", "wnlmf")])


@pytest.mark.parametrize(
    ("counts", "total"),
    [
        (["3", "4"], 7), (["3", "many"], 3), (["-1", "4"], 4),
        ([str(2**31 - 1)], 2**31 - 1), ([str(2**31)], 0), ([str(2**31 - 1), "1"], 0),
    ],
)  # fmt: skip
def test_counts_of_a_sense_are_added_up_and_nonsense_is_none(
    counts: list[str], total: int, tmp_path: Path
) -> None:
    """What fits into no column of counts would end the whole load."""
    sense = "".join(f"<Count>{count}</Count>" for count in counts)
    entry = ENTRY.format("dog", "w-1").replace('synset="w-1"/>', f'synset="w-1">{sense}</Sense>')
    path = tmp_path / "x.xml"
    path.write_text(LEXICON.format(entry + '<Synset id="w-1"/>'), encoding="utf-8")
    texts = [record for record in read(path, DamageReport()) if isinstance(record, Text)]
    assert [text.frequency for text in texts if text.value == "dog"] == [total]
