"""The tagger of the study: what it is trained on, what was left out, how well it finds names.

Re-DocRED's development part (Wikipedia), Wikigold (Wikipedia) and WNUT17's training part (posts),
all of whose names are marked. Texts that share words with a benchmark are left out. Of Re-DocRED
and Wikigold whole documents are held out: they choose the epoch, and Wikigold's serve the decision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.entity_linking.inputs.texts import shingles
from kept.linking.tagging.marked import MarkedText, read_marked

REDOCRED, WIKIGOLD, WNUT = "Re-DocRED", "Wikigold", "WNUT17"
FILES = {
    REDOCRED: "re/redocred/dev_revised.json.gz",
    WIKIGOLD: "typing/wikigold/wikigold.conll.txt.gz",
    WNUT: "typing/wnut17/wnut17train.conll.gz",
}
TESTED = {"WNUT17, development": "typing/wnut17/emerging.dev.conll"}


@dataclass(frozen=True)
class TaggerTexts:
    """By set the texts to train on and those held out; `left_out` counts the audit's finds."""

    train: dict[str, list[MarkedText]]
    held_out: dict[str, list[MarkedText]]
    left_out: dict[str, int]


def read_texts(
    root: Path,
    benchmarks: Mapping[str, Sequence[str]],
    *,
    overlap: int,
    apart: Mapping[str, tuple[int, int]],
    steps: Mapping[str, int],
) -> TaggerTexts:
    """All sets without what shares `overlap` words in a row with a benchmark.

    `apart` names sets with the first document that is held out and the step to the next, `steps`
    those of which only every so manieth text trains.
    """
    owned = {each for texts in benchmarks.values() for t in texts for each in shingles(t, overlap)}
    train: dict[str, list[MarkedText]] = {}
    held_out: dict[str, list[MarkedText]] = {}
    left_out: dict[str, int] = {}
    for name, file in FILES.items():
        texts = read_marked(root / file)
        clean = [text for text in texts if not shingles(text.text, overlap) & owned]
        left_out[name] = len(texts) - len(clean)
        held = clean[slice(apart[name][0], None, apart[name][1])] if name in apart else []
        if held:
            held_out[name] = held
        train[name] = [text for text in clean if text not in held][:: steps.get(name, 1)]
    return TaggerTexts(train, held_out, left_out)
