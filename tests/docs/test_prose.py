"""The counter of words and sentences: what it reads of a page, and what it finds there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.prose import ROOT, glossary, pages, sentences

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
    found = [(each.line, each.text, each.n_words) for each in sentences(PAGE, Path("page.md"))]
    assert found == [
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


def test_pages_in_all_places_are_read() -> None:
    names = {str(path.relative_to(ROOT)) for path in pages()}
    if "README.md" not in names:
        pytest.skip("pages are no part of an installed package")
    assert {"CONTRIBUTING.md", "docs/how-to/linking.md", "tests/golden/ernie/README.md"} <= names
    assert len(names) > 100
