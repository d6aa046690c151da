"""From what was written to what counts: exactly the value, the value chosen, a refusal."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from kept.decoders.kblam.wording import is_refusal
from kept.lab.questions.items import QuestionSet
from kept.lab.questions.prompts import Prompting
from kept.lab.questions.showing import ShownItem
from kept.randomness import generator

ARTICLE = re.compile(r"^(a|an|the)\s+")
STOPS = ".,;!?。，；．！？、｡､،؛؟۔।॥…"
"""Signs that end a word or sentence: in Latin, East Asian, Arabic and Indic scripts."""
WITHIN_NUMBERS = frozenset(".,;，；．、､،")
"""Those that belong to a number where a figure follows."""
ENDS = re.compile(rf"\s*([{re.escape(STOPS)}\n<]|$)")
ABBREVIATION = re.compile(r"(?:^|[\s.])\w$|\w\.\w+$")
"""What ends with a point that belongs to the word: one letter, or letters with points between."""
TITLES = frozenset({"dr", "gen", "jr", "mr", "mrs", "ms", "mt", "no", "prof", "sr", "st", "vs"})
"""Words whose point ends no sentence."""
EXACT, CHOSEN, REFUSED = "exact", "chosen", "refused"
MEASURES = {
    EXACT: "exactly the value is written, but for an article before it",
    CHOSEN: "of the candidates' first pieces the right value's is the most probable; values that "
    "begin alike share what they get",
    REFUSED: "that the answer is not known is written",
}


def is_right(written: str, value: str) -> bool:
    """Whether exactly the value was written, an article before it or not, and its word ends there.

    Case does not matter in any script ("İzmir" is "izmir", "STRASSE" is "Straße"). A point or comma
    between figures, a point between letters and the point of an abbreviation end no word.

    >>> is_right(" a Baker. He", "baker"), is_right(" a baker's dozen", "baker")
    (True, False)
    >>> is_right(" 3.14", "3"), is_right(" 3. He", "3"), is_right("U.S. Army", "U.S")
    (False, True, False)
    """
    text, wanted = _folded(written.strip()), _folded(value.strip())
    return bool(wanted) and any(
        start.startswith(wanted) and _ends(wanted, start[len(wanted) :])
        for start in dict.fromkeys((text, ARTICLE.sub("", text)))
    )


def _folded(text: str) -> str:
    """The text without differences of case, the same for composed and decomposed letters.

    Unicode folds `İ` to an i and a dot above; the dot goes, so that it is an i.
    """
    folded = unicodedata.normalize("NFC", text).casefold()
    return unicodedata.normalize("NFC", folded.replace("i\u0307", "i"))


def _ends(value: str, rest: str) -> bool:
    """Whether the last word of `value` ends before `rest`, and a stop or nothing follows."""
    if ENDS.match(rest) is None:
        return False
    sign, after = rest[:1], rest[1:2]
    if sign in WITHIN_NUMBERS and value[-1].isdigit() and after.isdigit():
        return False  # "3.14", "1,000"
    if sign != ".":
        return True
    if value[-1].isalnum() and after.isalnum():
        return False  # "node.js"
    is_short = ABBREVIATION.search(value) is not None or value.split()[-1] in TITLES
    is_short = is_short and not value[-1].isdigit()
    return not is_short or ENDS.match(rest[1:]) is not None  # "U.S. Army" is not "U.S"


def candidates(
    questions: QuestionSet, each: ShownItem, also: Sequence[str], n: int, seed: int
) -> list[str]:
    """Up to `n` values of the question's relation, sorted; those of `also` among them.

    `questions` hold the unedited graph, so that every condition has the same ones.
    """
    relation = questions.fact_of(each.item)[1]
    wanted = dict.fromkeys((*each.item.answers, *also))
    others = [value for value in questions.values[relation] if value not in wanted]
    draws = generator(seed, "candidates", each.index)
    sample = [others[i] for i in draws.permutation(len(others))[: max(n - len(wanted), 0)]]
    return sorted([*wanted, *sample])


@dataclass(frozen=True)
class Judged:
    """An answer: the value that was written, the one that was chosen, counts of each measure."""

    written: str
    chosen: str
    counts: dict[str, list[float]]


def judged(
    prompting: Prompting, each: ShownItem, values: Sequence[str], text: str, scores: Tensor
) -> Judged:
    """What was written to an item, `scores` `[word]` of its first piece among `values`."""
    first = [prompting.pieces(value)[0] for value in values]
    best = max(dict.fromkeys(first), key=lambda piece: float(scores[piece]))
    alike = [value for value, piece in zip(values, first, strict=True) if piece == best]
    share = len(set(alike) & set(each.right)) / len(alike)
    exact = any(is_right(text, value) for value in each.right)
    counts = {EXACT: float(exact), CHOSEN: share, REFUSED: float(is_refusal(text))}
    return Judged(
        text.partition("<|")[0].strip(),
        " or ".join(alike),
        {name: [right, 1.0, 1.0] for name, right in counts.items()},
    )
