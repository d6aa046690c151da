"""A comparison as LaTeX tables (package booktabs): scores, differences, verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kept.lab.comparison.compared import Compared
from kept.lab.comparison.pages.headline import headline
from kept.lab.comparison.pages.tables import (
    PAIRS,
    SCORES,
    VERDICTS,
    pair_cells,
    score_cells,
    verdict_cells,
)

MARK = "% written by kept"
_ESCAPED = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$",
    "–": "--", "—": "---", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
}  # fmt: skip


def latex_tables(compared: Compared) -> str:
    """Return the three tables with captions and labels, under the sentence of verdict."""
    name = compared.experiment.name
    parts = [f"{MARK}; needs \\usepackage{{booktabs}}\n% {_line(headline(compared))}\n"]
    for title, columns, rows in (
        ("scores", SCORES, score_cells(compared)),
        ("differences", PAIRS, pair_cells(compared)),
        ("verdicts", VERDICTS, verdict_cells(compared)),
    ):
        if rows:
            parts.append(latex_table(columns, rows, f"{name}: {title}", f"tab:{name}-{title}"))
    return "\n".join(parts)


def latex_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], caption: str, label: str
) -> str:
    """Return one table; the first column is text, the others are centred.

    >>> print(latex_table(("method", "F1 %"), [["K-BERT", "81.2"]], "Scores", "tab:a"))
    \\begin{table}
    \\centering
    \\caption{Scores}\\label{tab:a}
    \\begin{tabular}{lc}
    \\toprule
    method & F1 \\% \\\\
    \\midrule
    K-BERT & 81.2 \\\\
    \\bottomrule
    \\end{tabular}
    \\end{table}
    <BLANKLINE>
    """
    lines = [
        r"\begin{table}", r"\centering", rf"\caption{{{escaped(caption)}}}\label{{{label}}}",
        rf"\begin{{tabular}}{{l{'c' * (len(columns) - 1)}}}", r"\toprule", _row(columns),
        r"\midrule", *map(_row, rows), r"\bottomrule", r"\end{tabular}", r"\end{table}", "",
    ]  # fmt: skip
    return "\n".join(lines)


def escaped(text: str) -> str:
    """Return `text` as LaTeX prints it.

    >>> escaped("50 % of {a_b}")
    '50 \\\\% of \\\\{a\\\\_b\\\\}'
    """
    return "".join(_ESCAPED.get(character, character) for character in _line(text))


def is_kept_latex(path: Path) -> bool:
    """Return whether a file is one that this module wrote."""
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        return stream.read(len(MARK)) == MARK.encode()


def _row(cells: Sequence[str]) -> str:
    return " & ".join(map(escaped, cells)) + r" \\"


def _line(text: str) -> str:
    return " ".join(text.split())
