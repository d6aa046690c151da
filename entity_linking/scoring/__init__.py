"""Scores of links against gold links, by the conventions of GERBIL.

Usbeck et al. 2015 (WWW, "GERBIL: General Entity Annotator Benchmarking Framework") and Röder et al.
2018 (Semantic Web 9(5), "GERBIL - Benchmarking Named Entity Recognition and Linking consistently");
where they are silent, their released evaluator (`FMeasureCalculator`, `MatchingsCounterImpl`).

*In-KB.* An entity that the graph does not know is NIL, in gold and in predictions alike (`known`;
None: the graph knows all), and NIL counts as no link on both sides. NIL has scores of its own.

*Strong match:* same start, same end, same entity. *Weak match:* overlapping spans, same entity.
Both are one-to-one: a link matches at most one other. A link that a text holds twice counts once.
Where spans of one entity overlap several others GERBIL matches greedily, in file order; here as
many as possible match, so that the order of links changes nothing.

*Micro* sums the counts of all texts; *macro* is the mean over texts of each text's precision,
recall and F1 (macro F1 is not made from macro precision and recall). A text without gold links
counts 1 in all three when nothing was found in it, else 0. Over a whole corpus a ratio with nothing
below the line is 0 (GERBIL: 1 when there is nothing to find and nothing was found).

*On gold spans* every gold mention is asked alone. Accuracy and candidate recall@k are given over
all gold mentions with an entity, where an entity outside the graph is always missed, and over
those whose entity is in the graph. A gold mention that was not predicted counts as wrong; of
several predictions on one span the most confident one answers, the first among equals. A predicted
NIL is a prediction on exactly a gold span that is not linked; others are not judged (GERBIL's
scores for emerging entities count them as wrong).

Some data sets mark only some mentions (RSS-500: exactly two a sentence), so that more links are no
error there: `on_gold_spans` leaves the predictions on gold spans alone.

`elevant` counts as ELEVANT does, whose tables rows of one's own may stand beside.

Intervals resample texts, never mentions, which are not independent within a text.
"""

from entity_linking.scoring.links import (
    Known,
    LinkScore,
    MacroScore,
    Match,
    count_links,
    macro_scores,
    on_gold_spans,
    score_links,
)
from entity_linking.scoring.report import (
    LinkReport,
    Measure,
    Score,
    compare,
    measures,
    report,
    to_markdown,
)
from entity_linking.scoring.spans import (
    Outcome,
    SpanScore,
    binned,
    outcomes,
    popularity_bins,
    score_nils,
    score_spans,
    span_score,
)

__all__ = [
    "Known",
    "LinkReport",
    "LinkScore",
    "MacroScore",
    "Match",
    "Measure",
    "Outcome",
    "Score",
    "SpanScore",
    "binned",
    "compare",
    "count_links",
    "macro_scores",
    "measures",
    "on_gold_spans",
    "outcomes",
    "popularity_bins",
    "report",
    "score_links",
    "score_nils",
    "score_spans",
    "span_score",
    "to_markdown",
]
