"""The cells of the study as a page and a picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Cell = Mapping[str, Any]


def best_layer(cells: Mapping[str, Cell]) -> str:
    """The reading layer that is right most often in the smallest graph; of equals the first."""
    smallest = min(sized(cells), key=lambda cell: cell["n_facts"])
    layers = smallest["layers"]
    return max(layers, key=lambda layer: (layers[layer][0], -int(layer)))


def sized(cells: Mapping[str, Cell]) -> list[Cell]:
    """The cells of graph sizes, smallest first."""
    found = [cell for name, cell in cells.items() if name.startswith("kblam-")]
    return sorted(found, key=lambda cell: cell["n_facts"])


def number(value: float | None, digits: int = 2) -> str:
    """A number for a table; "none" where there was nothing to divide by."""
    return "none" if value is None else f"{value:.{digits}f}"


def to_markdown(cells: Mapping[str, Cell], command: str, training: Mapping[str, Any]) -> str:
    """The page: by graph size, beside words, and the controls."""
    layer = best_layer(cells)
    lines = [
        "# KBLaM on SmolLM2 against graph size",
        f"<!-- written by {command} -->",
        "",
        (
            f"{len(training['losses'])} steps of training in {training['cpu_seconds']} CPU "
            f"seconds, after the alignment. Attention at layer {layer}, the best in the smallest "
            "graph; exact answers by the value after the last *is*."
        ),
        "",
        (
            "| facts | questions | attention first | in five | exact | refusal precision | "
            "recall | refused wrongly | ms a question | MiB of facts | peak MiB |"
        ),
        "|" + " --- |" * 11,
    ]
    for cell in sized(cells):
        first, five = cell["layers"][layer]
        shown = [
            cell["n_facts"], cell["n"], number(first), number(five), number(cell["exact"]),
            number(cell["refusal_precision"]), number(cell["refusal_recall"]),
            number(cell["refused_wrongly"]), number(cell["ms_a_question"], 0),
            number(cell["mib_of_facts"], 1), number(cell["peak_mib"], 0),
        ]  # fmt: skip
        lines.append("| " + " | ".join(map(str, shown)) + " |")
    return "\n".join([*lines, "", *_beside(cells), "", *_layers(cells), ""])


def _beside(cells: Mapping[str, Cell]) -> list[str]:
    """The host with facts as words, KBLaM without facts, aligned alone, and edits."""
    lines = [
        (
            "| row | facts | tokens of a prompt | retrieved | exact | value named | "
            "refusal precision | recall | ms a question |"
        ),
        "|" + " --- |" * 9,
    ]
    for name, cell in cells.items():
        if not name.startswith("words-") and name not in ("off", "aligned"):
            continue
        shown = [
            name, cell.get("n_facts", 0), number(cell.get("tokens"), 0),
            number(cell.get("retrieved")), number(cell["exact"]), number(cell["named"]),
            number(cell["refusal_precision"]), number(cell["refusal_recall"]),
            number(cell["ms_a_question"], 0),
        ]  # fmt: skip
        lines.append("| " + " | ".join(map(str, shown)) + " |")
    edited = cells["edited"]
    return [
        *lines,
        "",
        (
            f"Values exchanged without training, {edited['n']} questions: "
            f"{number(edited['new'])} of the answers are the new value, {number(edited['old'])} "
            "the old one."
        ),
    ]


def _layers(cells: Mapping[str, Cell]) -> list[str]:
    """The share of questions whose fact has most attention, by layer and size."""
    rows = sized(cells)
    head = "| layer | " + " | ".join(f"{cell['n_facts']} facts" for cell in rows) + " |"
    lines = [head, "|" + " --- |" * (len(rows) + 1)]
    for layer in rows[0]["layers"]:
        shares = [number(cell["layers"][layer][0]) for cell in rows]
        lines.append(f"| {layer} | " + " | ".join(shares) + " |")
    return lines


def draw(cells: Mapping[str, Cell], path: Any) -> None:
    """The curves against graph size, as PNG."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    layer, rows = best_layer(cells), sized(cells)
    sizes = [cell["n_facts"] for cell in rows]
    figure, axes = pyplot.subplots(figsize=(6, 3.5), layout="constrained")
    axes.semilogx(sizes, [c["layers"][layer][0] for c in rows], "o-", label="attention first")
    axes.semilogx(sizes, [c["layers"][layer][1] for c in rows], "s-", label="attention in five")
    axes.semilogx(sizes, [c["exact"] for c in rows], "^-", label="exact answers")
    axes.semilogx(sizes, [c["refusal_recall"] for c in rows], "x--", label="refusal recall")
    axes.set(xlabel="facts in the graph", ylabel="share of questions", ylim=(-0.02, 1.02))
    axes.legend()
    figure.savefig(path, format="png", dpi=110)
    pyplot.close(figure)
