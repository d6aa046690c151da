"""The verdict of a whole comparison in a sentence or two."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kept.evaluation.crossed import Effect
from kept.lab.comparison.compared import LARGEST, SMALLEST, Compared


def headline(compared: Compared) -> str:
    """The conclusion of the whole comparison, in a sentence or two: the first thing on a page."""
    if compared.primary:
        return _primary_sentence(compared)
    groups: dict[str, list[str]] = {}
    for row in compared.rows:
        if row.knowledge == "true":
            word = compared.conclusion(row.method).partition(";")[0]
            groups.setdefault(word, []).append(compared.experiment.title(row.method))
    effects = "; ".join(f"{', '.join(names)}: {word}" for word, names in groups.items())
    visible_effects = _visible(pair.effect for pair in compared.pairs)
    if not visible_effects:
        return f"{effects}." if effects else "No method with true knowledge is finished."
    return f"{effects}.{_invisible(visible_effects)}"


def _visible(effects: Iterable[Effect]) -> list[float]:
    """The smallest visible effect of each pair that differs at all, over several seeds.

    Of pairs whose answers are equal it would be zero, which says nothing.
    """
    several = [effect.visible() for effect in effects if effect.of_seeds is not None]
    return [smallest for smallest in several if smallest >= SMALLEST]


def _invisible(smallest: Sequence[float]) -> str:
    """A sentence on the smallest visible effects of several pairs."""
    least, most = min(smallest), max(smallest)
    if least >= LARGEST:
        return " No effect was visible: give more seeds."
    first, last = f"{least:.3f}", f"{most:.3f}" if most < LARGEST else "any"
    span = first if last == first else f"{first} to {last}"
    return f" Effects below {span} were not visible."


def _primary_sentence(compared: Compared) -> str:
    named = compared.experiment.primary
    late = "" if all(r.before for r in compared.primary) else " (named after runs were made)"
    words = {1: "larger with a fact", -1: "larger without", 0: "not shown to differ"}
    verdicts = [
        f"{word} for " + ", ".join(f"{r.title} ({r.effect.estimate:+.3f})" for r in results)
        for value, word in words.items()
        if (results := [r for r in compared.primary if r.verdict_sign == value])
    ]
    visible_effects = _visible(r.effect for r in compared.primary)
    limit = _invisible(visible_effects) if visible_effects else ""
    return (
        f"Primary contrast{late}: the gain of true knowledge over "
        f"{named.against if named else 'a control'}, on samples with a fact against those "
        f"without, is {'; '.join(verdicts)}.{limit}"
    )
