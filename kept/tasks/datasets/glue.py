"""Tasks of language understanding with files of their own: CoLA, WiC and STS-B (SST-2 is a table).

CoLA: Warstadt et al. 2019 (TACL), a table without header: source, label, star, sentence. WiC:
Pilehvar and Camacho-Collados 2019 (NAACL), here in a form of prompts without character offsets, so
that the word has to be found again in its inflected form. STS-B: Cer et al. 2017 (SemEval), as its
authors distribute it: genre, file, year, number, score from 0 to 5, two sentences, sources or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from entity_linking.annotations import read_rows
from entity_linking.errors import LinkingError
from entity_linking.mentions import LinkedText, Mention
from kept.graphs.words import join_texts
from kept.tasks.datasets.class_labels import not_a_number
from kept.tasks.datasets.example import TaskExample
from kept.tasks.datasets.inflection import find_form
from kg_loaders.damage import DamageReport
from kg_loaders.reading.lines import read_lines

NOT_FOUND = "a word that is not found in its sentence"


def read_cola(path: Path, report: DamageReport) -> Iterator[TaskExample]:
    """Sentences with 1 (acceptable) or 0; a member of a zip archive is `ARCHIVE.zip/MEMBER`."""
    for line, offset, raw in read_lines(path, report):
        cells = raw.decode().split("\t")
        if not raw.strip():
            report.n_blank += 1
        elif len(cells) != 4 or cells[1] not in ("0", "1") or not cells[3].strip():
            reason = "not source, label 0 or 1, star, sentence"
            report.reject(str(path), line, offset, reason, raw)
        else:
            report.n_texts += 1
            yield TaskExample(LinkedText(cells[3].strip(), (), str(line)), (cells[1],))


def read_stsb(path: Path, report: DamageReport) -> Iterator[TaskExample]:
    """Pairs of sentences with how alike they are, the mean of what annotators said."""
    for line, offset, raw in read_lines(path, report):
        cells = [cell.strip() for cell in raw.decode().split("\t")]
        if not raw.strip():
            report.n_blank += 1
        elif len(cells) < 7 or not (cells[5] and cells[6]):
            reason = "not genre, file, year, number, score, two sentences"
            report.reject(str(path), line, offset, reason, raw)
        elif fault := not_a_number(cells[4]):
            report.reject(str(path), line, offset, fault, raw)
        else:
            report.n_texts += 1
            pair = join_texts(*(LinkedText(text, (), str(line)) for text in cells[5:7]))
            yield TaskExample(pair, (cells[4],))


class _Prompt(msgspec.Struct):
    text: str
    label: int


def read_wic(path: Path, report: DamageReport) -> Iterator[TaskExample]:
    """`{"text": "Word: w. Sentence 1: ... Sentence 2: ...", "label": 0 or 1}`, one object per line.

    An example is the pair of sentences, its targets are the word's two places. A sentence in which
    no form of the word is found is itself the target; `report` counts such words, beside the lines,
    as further records that were skipped.
    """
    for sides, label in read_rows(path, report, _Prompt, _sides):
        (first, second), parts = sides, [LinkedText(text, ()) for text, _ in sides]
        linked, targets = join_texts(*parts), []
        for (text, mention), start in ((first, 0), (second, linked.pair_start or 0)):
            if mention is None:
                report.n_further += 1
                report.skip(NOT_FOUND)
                mention = Mention(0, len(text))
            targets.append(Mention(mention.start + start, mention.end + start))
        yield TaskExample(linked, (label,), tuple(targets))


_Side = tuple[str, Mention | None]


def _sides(row: _Prompt) -> tuple[tuple[_Side, _Side], str]:
    opening, _, rest = row.text.partition(". Sentence 1: ")
    first, _, second = rest.partition(" Sentence 2: ")
    _, is_word, word = opening.partition("Word: ")
    if not (is_word and word and first.strip() and second.strip()):
        raise LinkingError("not 'Word: w. Sentence 1: ... Sentence 2: ...'")
    if row.label not in (0, 1):
        raise LinkingError(f"label {row.label} is neither 0 nor 1")
    one, two = first.strip(), second.strip()
    return ((one, find_form(word, one)), (two, find_form(word, two))), str(row.label)
