"""Gates on text whose names are all marked: Wikigold (Wikipedia) and WNUT17 (posts, development).

How well the spans of `NameLinker` agree with the marked ones; `gates.py` prints the table. Neither
set names entities, so nothing but spans is judged; a name that the graph does not have counts as
missed.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from entity_linking.annotations import gold_link
from entity_linking.mentions import Link, LinkedText
from entity_linking.names import Gates, NameIndex, NameLinker
from entity_linking.scoring import Match, score_links
from kept.lab.study.tables import Table
from kept.linking.tagging.marked import MarkedText, read_marked

WIKIGOLD, WNUT = "wikigold", "wnut17"
FULLY_MARKED = {
    WIKIGOLD: "typing/wikigold/wikigold.conll.txt.gz",
    WNUT: "typing/wnut17/emerging.dev.conll",
}
MATCHES: tuple[Match, Match] = ("strong", "weak")
SCORES = ("precision", "recall", "F1", "F1, touching")
_LOWER = re.compile(r"(?<!\S)[a-z]+(?!\S)")


def read_names(path: Path) -> list[LinkedText]:
    """Return the texts of a file whose names are all marked, every name a link."""
    return as_linked(read_marked(path))


def as_linked(texts: Sequence[MarkedText]) -> list[LinkedText]:
    """Return marked texts, every name a link, whatever its kind."""
    linked = []
    for text in texts:
        spans = sorted({(start, end) for start, end, _ in text.spans})
        links = tuple(gold_link(start, end, "name") for start, end in spans)
        linked.append(LinkedText(text.text, links))
    return linked


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
    spans = [replace(text, links=tuple(map(_as_name, text.links))) for text in predicted]
    strong, weak = (score_links(gold, spans, match=match) for match in MATCHES)
    return dict(zip(SCORES, (strong.precision, strong.recall, strong.f1, weak.f1), strict=True))


def _as_name(link: Link) -> Link:
    return gold_link(link.start, link.end, "name")


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
    options = dict(values)
    if options.pop("common_words", False):
        options["common_words"] = common
    return Gates(**options)


def gate_table(scores: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Table:
    """Return a row for each setting, best strong F1 on Wikigold first."""
    columns = ["gates", *(f"{each} {score}" for each in FULLY_MARKED for score in SCORES)]
    rows = []
    for name, of_sets in sorted(scores.items(), key=lambda row: -row[1][WIKIGOLD]["F1"]):
        numbers = (of_sets[each][score] for each in FULLY_MARKED for score in SCORES)
        rows.append([name, *(f"{value:.3f}" for value in numbers)])
    return Table(columns, rows)
