"""Words to synsets in WordNet: candidates in sense order, and morphology.

From `index.*` (senses of a lemma, most frequent first) and `*.exc` (irregular forms); man pages
wndb(5) and morphy(7). How often a sense was tagged is in the graph, as the frequency of a text.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kg_loaders.damage import DamageReport
from kg_loaders.errors import SourceError
from kg_loaders.formats.wordnet import PARTS, find_wordnet, synset_id
from kg_loaders.reading.digits import whole_number
from kg_loaders.reading.lines import read_lines
from kg_loaders.store import KnowledgeGraph

# Endings and what stands in their place, in the order of morphy(7).
_RULES: dict[str, tuple[tuple[str, str], ...]] = {
    "n": (
        ("s", ""), ("ses", "s"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh"),
        ("men", "man"), ("ies", "y"),
    ),
    "v": (
        ("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"),
        ("ing", ""),
    ),
    "a": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "r": (),
}  # fmt: skip


class Lexicon:
    """Lemmas of WordNet with their synsets in sense order."""

    def __init__(
        self,
        synsets: dict[tuple[str, str], tuple[str, ...]],
        exceptions: dict[tuple[str, str], tuple[str, ...]],
    ) -> None:
        self._synsets, self._exceptions = synsets, exceptions

    def __len__(self) -> int:
        return len(self._synsets)

    def __repr__(self) -> str:
        return f"Lexicon({len(self)} lemmas)"

    @classmethod
    def open(cls, path: str | Path | None = None) -> Lexicon:
        """Read `index.*` and `*.exc` of the folder that `find_wordnet(path)` names.

        Raises SourceError when a file is missing, DamageError at a malformed line.
        """
        folder = find_wordnet(path)
        synsets: dict[tuple[str, str], tuple[str, ...]] = {}
        exceptions: dict[tuple[str, str], tuple[str, ...]] = {}
        for part, letter in PARTS.items():
            for lemma, senses in _read_index(folder / f"index.{part}", letter):
                synsets[lemma, letter] = senses
            for form, *bases in _read_exceptions(folder / f"{part}.exc"):
                exceptions[form, letter] = (*exceptions.get((form, letter), ()), *bases)
        return cls(synsets, exceptions)

    def synsets(self, lemma: str, part: str | None = None) -> tuple[str, ...]:
        """Synset ids of a base form, most frequent first, of one part of speech or of all.

        Parts are `n`, `v`, `a`, `r`, in this order when all are asked for.
        """
        key = lemma.lower().replace(" ", "_")
        parts = PARTS.values() if part is None else (part,)
        return tuple(synset for letter in parts for synset in self._synsets.get((key, letter), ()))

    def morphy(self, word: str, part: str) -> list[str]:
        """Base forms of `word` that WordNet has: itself, then irregular ones, else by ending.

        morphy(7) without its search through the single words of a collocation.
        """
        form = word.lower().replace(" ", "_")
        irregular = self._exceptions.get((form, part), ())
        forms = [form, *(irregular or _regular(form, part))]
        return [base for base in dict.fromkeys(forms) if (base, part) in self._synsets]


def _regular(form: str, part: str) -> Iterator[str]:
    tail = "ful" if part == "n" and form.endswith("ful") else ""
    stem = form.removesuffix(tail)
    if part == "n" and not tail and (form.endswith("ss") or len(form) <= 2):
        return
    for ending, base in _RULES[part]:
        if stem.endswith(ending):
            yield stem[: -len(ending)] + base + tail


def _read_exceptions(file: Path) -> Iterator[list[str]]:
    report = DamageReport()
    for line_no, offset, line in _lines(file, report):
        fields = line.decode().split()
        if len(fields) < 2:
            report.reject(str(file), line_no, offset, "no base form after the inflected one", line)
        yield fields


def _read_index(file: Path, part: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    report = DamageReport()
    for line_no, offset, line in _lines(file, report):
        if line.startswith(b"  "):
            continue  # the licence
        fields = line.decode().split()
        try:
            n_senses, n_symbols = whole_number(fields[2]), whole_number(fields[3])
        except (ValueError, IndexError):
            n_senses, n_symbols = 0, 0
        offsets = fields[6 + n_symbols :]
        if not n_senses or fields[1] != part or len(offsets) != n_senses:
            report.reject(str(file), line_no, offset, "the fields do not fit their counts", line)
        yield fields[0], tuple(synset_id(number, part) for number in offsets)


def _lines(file: Path, report: DamageReport) -> Iterator[tuple[int, int, bytes]]:
    if not file.is_file():
        raise SourceError(f"{file} is missing: it belongs to WordNet's files, as data.noun does")
    return read_lines(file, report)


def parts_of_speech(graph: KnowledgeGraph) -> NDArray[np.int64]:
    """Part of speech of each entity of a WordNet graph, `[entity]`: n 1, v 2, a 3, r 4, s 5.

    0 for an entity whose id is not a synset's; satellites count as adjectives, as in their ids.
    """
    numbers = {letter: number for number, letter in enumerate("nvars", start=1)}
    names = (str(name) for name in graph.entities)
    parts = [numbers.get(name[-1], 0) if name[-2:-1] == "-" else 0 for name in names]
    return np.array(parts, np.int64)
