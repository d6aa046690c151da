"""`read_aida`: the documents and paragraphs of the AIDA data, and the places of their mentions."""

from __future__ import annotations

import pytest

from entity_linking import LinkingError
from entity_linking.annotations.aida import AidaText, WordSpan, read_aida

LINES = [
    "DOCSTART_0_EU", "MMSTART http://x/Germany", "Germany", "MMEND", "calls", "*NL*",
    "The", "MMSTART http://x/New_York", "New", "York", "MMEND", "DOCEND",
    "DOCSTART_1_Cup", "Cup", "DOCEND",
]  # fmt: skip
GERMANY = WordSpan(entity="Germany", first=0, last=0)


def test_documents_are_numbered_from_0() -> None:
    assert [*read_aida(LINES)] == [
        AidaText(
            (0, 0),
            ("Germany", "calls", "The", "New", "York"),
            (GERMANY, WordSpan(entity="New_York", first=3, last=4)),
        ),
        AidaText((1, 0), ("Cup",), ()),
    ]


def test_paragraphs_are_numbered_within_their_document() -> None:
    assert [*read_aida(LINES, "paragraph")] == [
        AidaText((0, 0), ("Germany", "calls"), (GERMANY,)),
        AidaText((0, 1), ("The", "New", "York"), (WordSpan(entity="New_York", first=1, last=2),)),
        AidaText((1, 0), ("Cup",), ()),
    ]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["DOCSTART_0", "MMSTART http://x/A", "A", "DOCEND"], "line 4: the mention of 'A' has no"),
        (["DOCSTART_0", "A", "MMEND", "DOCEND"], "line 3: MMEND without a mention"),
        (["DOCSTART_0", "MMSTART http://x/A", "MMEND"], "line 3: MMEND without a mention"),
    ],
)
def test_marks_without_their_other_end_are_refused(lines: list[str], message: str) -> None:
    with pytest.raises(LinkingError, match=message):
        [*read_aida(lines)]
