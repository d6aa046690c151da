"""Gates on text whose names are all marked: Wikigold (Wikipedia) and WNUT17 (posts, development).

How well the spans of `NameLinker` agree with the marked ones; `gates.py` prints the table. Neither
set names entities, so nothing but spans is judged; a name that the graph does not have counts as
missed. Words of a sentence are joined by blanks, sentences of an article by line breaks.
"""

from __future__ import annotations

import gzip
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from entity_linking.annotations import gold_link
from entity_linking.mentions import LinkedText
from entity_linking.names import Gates, NameIndex, NameLinker
from entity_linking.scoring import Match, score_links

WIKIGOLD, WNUT = "wikigold", "wnut17"
FULLY_MARKED = {
    WIKIGOLD: ("typing/wikigold/wikigold.conll.txt.gz", " "),
    WNUT: ("typing/wnut17/emerging.dev.conll", "\t"),
}
MATCHES: tuple[Match, Match] = ("strong", "weak")
SCORES = ("precision", "recall", "F1", "F1, touching")
DOCUMENT = "-DOCSTART-"
_LOWER = re.compile(r"(?<!\S)[a-z]+(?!\S)")


def read_marked(root: Path, name: str) -> list[LinkedText]:
    """The documents of a set; every marked name is a link (to its own kind)."""
    file, blank = FULLY_MARKED[name]
    raw = (root / file).read_bytes()
    text = gzip.decompress(raw) if file.endswith(".gz") else raw
    return list(_documents(text.decode("utf-8").split("\n"), blank))


def _documents(lines: Iterable[str], blank: str) -> Iterator[LinkedText]:
    """A document ends at its mark; of sets without such marks a sentence is a document."""
    rows = [line.rstrip().rsplit(blank, 1) for line in lines]
    has_marks = any(row[0] == DOCUMENT for row in rows)
    pieces: list[str] = []
    spans: list[tuple[int, int]] = []
    length, kind = 0, "O"
    for row in [*rows, [""]]:
        word, tag = (row[0], row[1]) if len(row) == 2 else ("", "O")
        if pieces and (word == DOCUMENT or (not word and (not has_marks or row is rows[-1]))):
            yield _marked(pieces, spans)
            pieces, spans, length = [], [], 0
        if word == DOCUMENT:
            kind = "O"
            continue
        if not word:
            kind = "O"
            if pieces and pieces[-1] != "\n":
                pieces[-1] = "\n"  # in place of the blank after the last word
            continue
        own = tag[2:] if tag != "O" else "O"
        if own != "O" and own == kind and not tag.startswith("B-"):
            spans[-1] = (spans[-1][0], length + len(word))
        elif own != "O":
            spans.append((length, length + len(word)))
        kind = own
        pieces += [word, " "]
        length += len(word) + 1
    if pieces:
        yield _marked(pieces, spans)


def _marked(pieces: Sequence[str], spans: Sequence[tuple[int, int]]) -> LinkedText:
    return LinkedText("".join(pieces), tuple(gold_link(*span, "name") for span in spans))


def lower_words(texts: Iterable[str], least: int) -> frozenset[str]:
    """Words that are written in lower case `least` times or more."""
    words: Counter[str] = Counter()
    for text in texts:
        words.update(_LOWER.findall(text))
    return frozenset(word for word, n in words.items() if n >= least)


def detect(index: NameIndex, gates: Gates, texts: Sequence[LinkedText]) -> list[LinkedText]:
    """The texts with the mentions that the gates let through."""
    return NameLinker(index, gates).link([text.text for text in texts])


def with_names(texts: Sequence[LinkedText], most: int) -> list[LinkedText]:
    """The first texts, up to `most` marked names or the first text."""
    sums = list(accumulate(len(text.links) for text in texts))
    return list(texts[: max(1, bisect_right(sums, most))])


def span_scores(gold: Sequence[LinkedText], predicted: Sequence[LinkedText]) -> dict[str, float]:
    """Agreement of spans, whatever they are linked to; "F1, touching" where they overlap."""
    spans = [
        LinkedText(
            text.text,
            tuple(gold_link(k.mention.start, k.mention.end, "name") for k in text.links),
        )
        for text in predicted
    ]
    strong, weak = (score_links(gold, spans, match=match) for match in MATCHES)
    return dict(zip(SCORES, (strong.precision, strong.recall, strong.f1, weak.f1), strict=True))


def compared(
    index: NameIndex,
    settings: Mapping[str, Mapping[str, Any]],
    texts: Mapping[str, Sequence[LinkedText]],
    common: frozenset[str],
) -> dict[str, dict[str, dict[str, float]]]:
    """Setting to set to score."""
    return {
        name: {
            each: span_scores(gold, detect(index, gates_of(values, common), gold))
            for each, gold in texts.items()
        }
        for name, values in settings.items()
    }


def gates_of(values: Mapping[str, Any], common: frozenset[str]) -> Gates:
    """Gates as the configuration names them; `common_words: true` takes `common`."""
    own = dict(values)
    if own.pop("common_words", False):
        own["common_words"] = common
    return Gates(**own)


def table(scores: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """A row a setting, best strong F1 on Wikigold first."""
    sets = list(FULLY_MARKED)
    heads = [f"{each} {score}" for each in sets for score in SCORES]
    lines = [f"| gates | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for name, of_setting in sorted(scores.items(), key=lambda row: -row[1][WIKIGOLD]["F1"]):
        cells = (f"{of_setting[each][score]:.3f}" for each in sets for score in SCORES)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
