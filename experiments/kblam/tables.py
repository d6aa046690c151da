"""The cells of the study as a page and a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kept.evaluation.crossed import Effect, effect
from kept.evaluation.paired import accuracy_counts, f1_value

Cells = Mapping[str, Sequence[Mapping[str, Any]]]
"""By name, one cell a seed."""
KBLAM = "kblam-"


def share(cells: Sequence[Mapping[str, Any]], measure: str) -> Effect:
    """The share of questions with `measure`, with its interval over seeds and questions."""
    return effect(accuracy_counts([cell[measure] for cell in cells]), f1_value)


def precision(cells: Sequence[Mapping[str, Any]]) -> float | None:
    """Of all refusals those of what is missing; None where nothing was refused."""
    wrong, right = (np.sum([c[k] for c in cells]) for k in ("refused", "refused missing"))
    return None if wrong + right == 0 else float(right / (wrong + right))


def sized(cells: Cells) -> dict[int, Sequence[Mapping[str, Any]]]:
    """The cells of graph sizes, smallest first."""
    found = {int(name.removeprefix(KBLAM)): each for name, each in cells.items()
             if name.startswith(KBLAM)}  # fmt: skip
    return dict(sorted(found.items()))


def layers(cells: Cells) -> list[str]:
    """The reading layers, best first in the smallest graph, of equals the lower."""
    smallest = next(iter(sized(cells).values()))
    start = "first "
    names = [name.removeprefix(start) for name in smallest[0] if name.startswith(start)]
    return sorted(names, key=lambda name: (-share(smallest, f"{start}{name}").estimate, int(name)))


def written(found: Effect) -> str:
    """A share with its interval of 95 %."""
    interval = found.interval()
    return f"{found.estimate:.2f} [{max(interval.low, 0):.2f}, {min(interval.high, 1):.2f}]"


def to_json(cells: Cells) -> dict[str, Any]:
    """Every share of every cell."""
    return {
        name: {
            measure: round(share(found, measure).estimate, 4)
            for measure, values in found[0].items()
            if isinstance(values, list) and measure != "shown"
        } | {"seeds": len(found), "n": len(found[0]["exact"])}
        for name, found in cells.items()
    }  # fmt: skip


def to_markdown(cells: Cells, command: str, logs: Sequence[Mapping[str, Any]]) -> str:
    """The page: by graph size, the controls and words beside it, and layers."""
    smallest = next(iter(sized(cells).values()))
    steps = ", ".join(f"{log['steps']} in {log['cpu_seconds']}" for log in logs)
    layer = layers(cells)[0]
    lines = [
        "# KBLaM against graph size",
        f"<!-- written by {command} -->",
        "",
        (
            f"{len(smallest)} seeds of training; steps after the alignment, and their CPU "
            f"seconds: {steps}. At most {len(cells['edited'][0]['exact'])} questions a cell, and "
            "the same number about missing facts. Intervals of 95 % are over seeds and "
            "questions. "
            f"Attention at layer {layer}, the best in the smallest graph, at the last two nodes "
            "before the value. *Share*: the right fact's part of what facts get where the name "
            "ends. *Right*: the value after the last *is*, one in eight by chance. *Begun*: with "
            "the "
            "answer's beginning given, the value's first piece is the most probable. *Refused, "
            "though there*: of the questions that have a fact. *Tokens*: those of the question "
            "and the facts that a node reads."
        ),
        "",
        (
            "| facts | right | begun | first | in five | share | missing ones refused | "
            "refused, though there | refusals that are right | tokens | ms a question | "
            "MiB of facts | peak MiB |"
        ),
        "|" + " --- |" * 13,
    ]
    for size, found in sized(cells).items():
        lines.append(_sized_row(size, found, layer))
    return "\n".join([*lines, "", *_beside(cells), "", *_layers(cells), ""])


def _sized_row(size: int, found: Sequence[Mapping[str, Any]], layer: str) -> str:
    names = ("exact", "begun", f"first {layer}", f"in five {layer}", f"share {layer}",
             "refused missing", "refused")  # fmt: skip
    right = precision(found)
    shown = [
        size, *(written(share(found, name)) for name in names),
        "none" if right is None else f"{right:.2f}",
        *(f"{np.mean([c[k] for c in found]):.{d}f}" for k, d in
          (("tokens", 0), ("ms_a_question", 0), ("mib_of_facts", 1), ("peak_mib", 0))),
    ]  # fmt: skip
    return "| " + " | ".join(map(str, shown)) + " |"


def _beside(cells: Cells) -> list[str]:
    """The host with facts as words, KBLaM without facts, aligned alone, edits and a shuffle."""
    lines = [
        (
            "| row | facts | seeds | right | value named | missing ones refused | "
            "retrieved | tokens of a prompt | ms a question |"
        ),
        "|" + " --- |" * 9,
    ]
    for name in ("edited", "shuffled", "aligned", "off", *(n for n in cells if "words" in n)):
        found = cells[name]
        shares = [
            written(share(found, k)) if k in found[0] else ""
            for k in ("exact", "named", "refused missing", "retrieved")
        ]
        costs = [f"{found[0][k]:.0f}" if k in found[0] else "" for k in ("tokens", "ms_a_question")]
        shown = [name, found[0].get("n_facts", ""), len(found), *shares, *costs]
        lines.append("| " + " | ".join(map(str, shown)) + " |")
    old = written(share(cells["edited"], "old"))
    return [
        *lines,
        "",
        (
            "*edited*: every value changed without training, right is the new one (the old one: "
            f"{old}); *shuffled*: values at keys of other facts, right is the true one."
        ),
    ]


def _layers(cells: Cells) -> list[str]:
    """The share of questions whose fact has most attention, by layer and size."""
    rows = sized(cells)
    lines = [
        "The right fact first, where the answer is written:",
        "",
        "| layer | " + " | ".join(f"{size} facts" for size in rows) + " |",
        "|" + " --- |" * (len(rows) + 1),
    ]
    for layer in sorted(layers(cells), key=int):
        shares = [f"{share(found, f'first {layer}').estimate:.2f}" for found in rows.values()]
        lines.append(f"| {layer} | " + " | ".join(shares) + " |")
    return lines


def draw(cells: Cells, path: Any) -> None:
    """The curves against graph size, as PNG."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    layer, rows = layers(cells)[0], sized(cells)
    figure, axes = pyplot.subplots(figsize=(6, 3.5), layout="constrained")
    for mark, measure, name in (
        ("o-", f"first {layer}", "right fact first"),
        ("s-", f"in five {layer}", "right fact in five"),
        ("^-", "exact", "right answers"),
        ("d-", "begun", "right value, answer begun"),
        ("x--", "refused missing", "missing facts refused"),
    ):
        shares = [share(found, measure).estimate for found in rows.values()]
        axes.semilogx(list(rows), shares, mark, label=name)
    axes.axhline(1 / 8, color="grey", linewidth=0.8)
    axes.set(xlabel="facts in the graph", ylabel="share of questions", ylim=(-0.02, 1.02))
    axes.legend(fontsize=8)
    figure.savefig(path, format="png", dpi=110)
    pyplot.close(figure)
