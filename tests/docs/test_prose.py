"""Pages avoid the glossary's words and long sentences; the counter of both reads prose alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.prose import ROOT, glossary, main, pages, sentences, share_of_long

PAGES = {str(path.relative_to(ROOT)): path for path in pages()}
SENTENCES = {name: sentences(path.read_text("utf-8"), path) for name, path in PAGES.items()}
MOST_LONG, MOST_LONG_ON_A_PAGE = 0.05, 0.10

PAGE = """\
# A title

First sentence, with `code that. Has dots` in it. Second one
goes over two lines, see [a link](asked.md). A third, e.g. this one, by Wu et al. 2020.

```
told beside: this is code.
```

<!-- told -->

| name | what |
|---|---|
| x | 0.5 |
| y | This cell holds a whole sentence of nine words. |

- an item
"""


def test_prose_is_read_and_code_and_numbers_are_not() -> None:
    rows = [(each.line, each.text, each.n_words) for each in sentences(PAGE, Path("page.md"))]
    assert rows == [
        (1, "A title", 2),
        (3, "First sentence, with ‹code› in it.", 6),
        (3, "Second one goes over two lines, see a link.", 9),
        (4, "A third, e.g. this one, by Wu et al. 2020.", 10),
        (15, "This cell holds a whole sentence of nine words.", 9),
        (17, "an item", 2),
    ]


def test_a_sentence_of_31_words_is_long() -> None:
    lengths = {n: sentences("word " * n, Path("page.md"))[0].is_long for n in (30, 31)}
    assert lengths == {30: False, 31: True}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The score stands beside the baseline's.", ["beside", "stands"]),
        ("KG stands for knowledge graph.", []),
        ("20 items were asked; a question that was asked twice counts once.", ["asked"]),
        ("There is no file; a directory is no file.", ["is no "]),
        ("A graph is no longer needed.", []),
        ("It writes as many lines.", ["as many"]),
        ("It writes as many lines as it reads.", []),
        ("A table of its own.", ["of its own"]),
        ("One row per run, not a row a run.", ["a row a run"]),
    ],
)
def test_words_of_the_glossary_are_found_unless_they_are_right(text: str, words: list[str]) -> None:
    assert [hit for term in glossary() for hit in term.hits(text)] == words


def test_terms_name_a_remedy_and_match_no_empty_text() -> None:
    terms = glossary()
    assert len(terms) > 25
    assert all(term.term and not term.written.search("") for term in terms)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_avoids_the_glossarys_words_and_long_sentences(name: str) -> None:
    terms, of_page = glossary(), SENTENCES[name]
    hits = [
        f"{name}:{sentence.line}: “{hit}”: write {term.term}"
        for sentence in of_page
        for term in terms
        for hit in term.hits(sentence.text)
    ]
    assert hits == []
    long = [f"{name}:{sentence.line}: {sentence.text}" for sentence in of_page if sentence.is_long]
    assert share_of_long(of_page) < MOST_LONG_ON_A_PAGE, long


@pytest.mark.skipif("README.md" not in PAGES, reason="pages are not part of an installed package")
def test_pages_in_all_places_are_read_and_few_of_their_sentences_are_long() -> None:
    expected = {"CONTRIBUTING.md", "docs/how-to/linking.md", "tests/golden/ernie/README.md"}
    assert expected <= PAGES.keys()
    assert len(PAGES) > 100
    everything = [sentence for of_page in SENTENCES.values() for sentence in of_page]
    assert len(everything) > 4000
    assert share_of_long(everything) < MOST_LONG


def test_the_command_lists_hits_with_their_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    page.write_text("Fine.\n\nIt stands here.\n", encoding="utf-8")
    monkeypatch.setattr("tests.docs.prose.ROOT", tmp_path)
    monkeypatch.setattr("sys.argv", ["prose", str(page)])
    main()
    first, *_, words, _ = capsys.readouterr().out.splitlines()
    assert first == "page.md:3: “stands”: write is, are, remains"
    assert words == "1 words of the glossary"


def test_names_of_decisions_avoid_the_glossarys_words() -> None:
    names = [name for name in PAGES if name.startswith("docs/decisions/")]
    assert len(names) > 60
    words = {name: Path(name).stem.replace("-", " ") for name in names}
    hits = {name: hit for name, text in words.items() for t in glossary() for hit in t.hits(text)}
    assert hits == {}
