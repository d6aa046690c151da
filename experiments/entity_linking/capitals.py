r"""What `kept link --capitals` is worth: names with their prior alone, nothing counted or trained.

    KEPT_DATA=… python -m experiments.entity_linking.capitals \
        experiments/entity_linking/wikidata.yaml -o runs/el

The graph is that of the study. Writes capitals.json and capitals.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from entity_linking.mentions import LinkedText
from entity_linking.names import Gates, NameIndex, NameLinker
from entity_linking.scoring.elevant import LabelledText, Mode, count_elevant
from experiments.command import data_root, run_study
from experiments.entity_linking.config import LinkingStudy
from experiments.entity_linking.inputs.benchmarks import CHOSEN_ON, FILES
from experiments.entity_linking.scores import Results
from experiments.entity_linking.stages import LinkingStages
from experiments.entity_linking.trial import timed
from kept.lab.study.tables import Table
from kept.linking.linkers import NAMED

LINKERS = {"kept link": Gates(), "kept link --capitals": NAMED}


def scores(stages: LinkingStages) -> Results:
    """By linker and benchmark: precision, recall and F1 of links, and F1 in required mode."""
    names = NameIndex.build(stages.world.graph)
    by_linker: Results = {}
    for linker, gates in LINKERS.items():
        by_linker[linker] = {}
        for benchmark in FILES:
            articles = stages.articles[benchmark]
            linked = NameLinker(names, gates).link([article.text for article in articles])
            ours = [article.cut(text) for article, text in zip(articles, linked, strict=True)]
            gold = stages.labelled(benchmark)
            n_gold, n_linked, n_right = _counts(gold, ours, "ignored")
            n_needed, n_said, n_required = _counts(gold, ours, "required")
            by_linker[linker][benchmark] = {
                "precision": n_right / max(n_linked, 1), "recall": n_right / n_gold,
                "F1": 2 * n_right / (n_gold + n_linked),
                "required F1": 2 * n_required / (n_needed + n_said),
            }  # fmt: skip
    return by_linker


def _counts(
    gold: Sequence[LabelledText], ours: Sequence[LinkedText], mode: Mode
) -> tuple[int, int, int]:
    """Gold, predicted and rightly predicted labels."""
    n_gold, n_ours, n_right = count_elevant(gold, ours, mode=mode).sum(axis=0).tolist()
    return n_gold, n_ours, n_right


def to_markdown(results: Results) -> str:
    """The page."""
    heads = [f"{name}, held out" if name not in CHOSEN_ON else name for name in FILES]
    rows = [
        [linker, score, *(f"{scores_of[name][score]:.3f}" for name in FILES)]
        for linker, scores_of in results.items()
        for score in ("precision", "recall", "F1", "required F1")
    ]
    return (
        f"# Links with and without `--capitals`\n\n{Table(['', 'links', *heads], rows).compact()}\n"
    )


def run(study: LinkingStudy, arguments: argparse.Namespace) -> tuple[str, Results]:
    """Return the page and its values."""
    results = scores(LinkingStages(data_root(), study, arguments.out, timed))
    return to_markdown(results), results


if __name__ == "__main__":
    run_study(__doc__, LinkingStudy, run, name="capitals")
