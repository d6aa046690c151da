"""A word-knowledge completion as cells, Markdown and JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

import msgspec

from kept.evaluation.leakage import LeakCheck
from kept.lab.comparison.compared import Compared
from kept.lab.comparison.pages import tables
from kept.lab.comparison.pages.headline import headline
from kept.lab.comparison.pages.tables import GAINS, SLICES, gain_cells, markdown
from kept.lab.comparison.strata import KNOWLEDGE
from kept.lab.completion.compare import Completion

RANKS = ("method", "knowledge", "MR", "MRR", "95 % interval", "Hits@1", "Hits@3", "Hits@10")
PAIRS = tables.PAIRS[:-1]
"""Without the column of coverage: every example has two linked entities."""
AUDIT = ("check", "checked", "found", "examples")


def rank_cells(compared: Compared) -> list[list[str]]:
    """Means over seeds, one line per row; of a row that is left out the reason."""
    cells, setting = [], compared.experiment.asked
    for row in compared.rows:
        mr, mrr, *hits = (
            fmean(record.scores[setting][name] for record in row.records)
            for name in ("mr", "mrr", "hits@1", "hits@3", "hits@10")
        )
        interval = f"{row.score.low:.3f} to {row.score.high:.3f}"
        shares = [f"{share:.3f}" for share in hits]
        title = compared.experiment.title(row.method)
        cells.append([title, row.knowledge, f"{mr:.2f}", f"{mrr:.3f}", interval, *shares])
    return cells + [[name, "—", "—", "—", why, *"———"] for name, why in compared.left_out.items()]


def pair_cells(compared: Compared) -> list[list[str]]:
    """Differences in MRR, as in `PAIRS`."""
    return [cells[:-1] for cells in tables.pair_cells(compared)]


def audit_cells(checks: Sequence[LeakCheck]) -> list[list[str]]:
    """Cells of the audit, as in `AUDIT`."""
    return [[c.check, str(c.n_checked), str(c.n_found), "; ".join(c.examples)] for c in checks]


def to_markdown(completion: Completion) -> str:
    """The whole comparison as Markdown."""
    parts = []
    for compared in completion.settings:
        parts += [
            f"## {compared.experiment.asked.capitalize()}\n\n{describe(compared)}\n",
            f"**{headline(compared)}**\n",
            markdown(RANKS, rank_cells(compared)),
            markdown(PAIRS, pair_cells(compared)),
            f"{SLICES}\n",
            markdown(GAINS, gain_cells(compared, KNOWLEDGE)),
        ]
    parts.append("## Leak audit\n")
    parts.append(markdown(AUDIT, audit_cells(completion.audit)))
    parts.append("## Counts\n")
    parts.append(markdown(("what", "n"), [[k, str(v)] for k, v in completion.counts.items()]))
    return "\n".join(parts)


def describe(compared: Compared) -> str:
    """The conditions of the ranking, and what differences are of."""
    conditions = compared.rows[0].record.scores[compared.experiment.asked]
    return (
        f"{conditions['n_scored']} of {conditions['n_asked']} facts scored, all relations of the "
        f"graph as candidates, filter: {conditions['filter']}, ties: {conditions['ties']}. "
        "Differences are in MRR; none is the most frequent relation. Intervals and p are over "
        "seeds and over groups of items, both drawn; of one seed, over items alone, and no verdict "
        "is given. In slices, a fact is one that the head has beside the evaluated ones."
    )


def to_json(completion: Completion) -> dict[str, Any]:
    """The whole comparison as JSON values."""
    return {
        "settings": {c.experiment.asked: tables.to_json(c) for c in completion.settings},
        "audit": msgspec.to_builtins(completion.audit),
        "counts": dict(completion.counts),
    }
