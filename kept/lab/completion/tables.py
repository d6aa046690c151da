"""A word-knowledge completion as tables, Markdown and JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

import msgspec

from kept.evaluation.leakage import LeakCheck
from kept.lab.completion.compare import Completion
from kept.lab.study.comparison_tables import SLICES, gain_table, pair_table
from kept.lab.study.comparison_tables import to_json as comparison_json
from kept.lab.study.slices import KNOWLEDGE
from kept.lab.study.tables import Table, limits_of, number
from kept.lab.study.verdicts import Compared, headline


def rank_table(compared: Compared) -> Table:
    """Return means over seeds, one line per row; of a row that is left out the reason."""
    rows, setting = [], compared.experiment.asked
    for row in compared.rows:
        mr, mrr, *hits = (
            fmean(record.scores[setting][name] for record in row.records)
            for name in ("mr", "mrr", "hits@1", "hits@3", "hits@10")
        )
        title = compared.experiment.title(row.method)
        means = [f"{mr:.2f}", number(mrr), limits_of(row.score), *map(number, hits)]
        rows.append([title, row.knowledge, *means])
    rows += [[name, "—", "—", "—", why, *"———"] for name, why in compared.left_out.items()]
    columns = "method", "knowledge", "MR", "MRR", "95 % interval", "Hits@1", "Hits@3", "Hits@10"
    return Table(columns, rows)


def audit_table(checks: Sequence[LeakCheck]) -> Table:
    """Return the leak audit."""
    rows = [[c.check, str(c.n_checked), str(c.n_found), "; ".join(c.examples)] for c in checks]
    return Table(("check", "checked", "found", "examples"), rows)


def to_markdown(completion: Completion) -> str:
    """The whole comparison as Markdown."""
    parts = []
    for compared in completion.settings:
        parts += [
            f"## {compared.experiment.asked.capitalize()}\n\n{describe(compared)}\n",
            f"**{headline(compared)}**\n",
            rank_table(compared).markdown(),
            pair_table(compared).without_last_column().markdown(),  # every example is linked
            f"{SLICES}\n",
            gain_table(compared, KNOWLEDGE).markdown(),
        ]
    parts.append("## Leak audit\n")
    parts.append(audit_table(completion.audit).markdown())
    parts.append("## Counts\n")
    parts.append(Table(("what", "n"), list(completion.counts.items())).markdown())
    return "\n".join(parts)


def describe(compared: Compared) -> str:
    """The conditions of the ranking, and what differences are of."""
    conditions = compared.rows[0].record.scores[compared.experiment.asked]
    return (
        f"{conditions['n_scored']} of {conditions['n_asked']} facts scored, all relations of the "
        f"graph as candidates, filter: {conditions['filter']}, ties: {conditions['ties']}. "
        "Differences are in MRR; none is the most frequent relation. Intervals and p are over "
        "seeds and over groups of items, both treated as samples; with one seed, over items "
        "alone, and no verdict is given. In slices, a fact is one that the head has in addition "
        "to the evaluated ones."
    )


def to_json(completion: Completion) -> dict[str, Any]:
    """The whole comparison as JSON values."""
    return {
        "settings": {c.experiment.asked: comparison_json(c) for c in completion.settings},
        "audit": msgspec.to_builtins(completion.audit),
        "counts": dict(completion.counts),
    }
