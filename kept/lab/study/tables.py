"""`Table`: cells under columns as Markdown, HTML, CSV or LaTeX; and how numbers are written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kept.csv_text import csv_text
from kept.evaluation.crossed import Effect
from kept.evaluation.statistics import Interval
from kept.lab.report.page import table

NOTHING = "—"
"""A cell without a value."""
MARK = "% written by kept"
_ESCAPED = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$",
    "–": "--", "—": "---", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
}  # fmt: skip


@dataclass(frozen=True)
class Table:
    """Cells under columns; `title` is its caption on a page, `name` is in the name of its file.

    >>> print(Table(("method", "F1"), [["K-BERT", "0.812"]]).markdown(), end="")
    | method | F1 |
    | --- | --- |
    | K-BERT | 0.812 |
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    title: str = ""
    name: str = ""

    def __bool__(self) -> bool:
        """Whether there are rows."""
        return bool(self.rows)

    def markdown(self, rule: str | None = None) -> str:
        """Return a Markdown table; `rule`: the line under the columns, as `|---|---:|`."""
        columns = " | ".join(self.columns)
        head = f"| {columns} |".replace("|  |", "| |")  # a column without a name
        rule = rule or f"| {' | '.join(['---'] * len(self.columns))} |"
        lines = [f"| {' | '.join(map(str, cells))} |\n" for cells in self.rows]
        return f"{head}\n{rule}\n{''.join(lines)}"

    def compact(self) -> str:
        """Return a Markdown table with a rule without spaces, and without a last line feed."""
        return self.markdown("|---" * len(self.columns) + "|").rstrip("\n")

    def html(self, caption: str | None = None) -> str:
        """Return an HTML table, under another caption where one is given; "" without rows."""
        return table(self.columns, self.rows, self.title if caption is None else caption)

    def csv(self) -> str:
        """Return CSV with a header, no cell of which a spreadsheet runs as a formula."""
        return csv_text(self.columns, self.rows)

    def latex(self, caption: str, label: str) -> str:
        """Return a LaTeX table (package booktabs); the first column is text, others are centred.

        >>> print(Table(("method", "F1 %"), [["K-BERT", "81.2"]]).latex("Scores", "tab:a"))
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
            r"\begin{table}", r"\centering",
            rf"\caption{{{escaped(caption)}}}\label{{{label}}}",
            rf"\begin{{tabular}}{{l{'c' * (len(self.columns) - 1)}}}", r"\toprule",
            _latex_row(self.columns), r"\midrule", *map(_latex_row, self.rows),
            r"\bottomrule", r"\end{tabular}", r"\end{table}", "",
        ]  # fmt: skip
        return "\n".join(lines)

    def dicts(self) -> list[Mapping[str, object]]:
        """Return the rows, each a mapping from its columns."""
        return [dict(zip(self.columns, cells, strict=True)) for cells in self.rows]

    def without_last_column(self) -> Table:
        """Return the table without its last column."""
        rows = [cells[:-1] for cells in self.rows]
        return replace(self, columns=self.columns[:-1], rows=rows)


# ---- numbers -------------------------------------------------------------------------------------
def number(value: float | None, sign: str = "") -> str:
    """Return a number with three places; a dash for None.

    >>> number(0.5), number(0.5, "+"), number(None)
    ('0.500', '+0.500', '—')
    """
    return NOTHING if value is None else f"{value:{sign}.3f}"


def percent(value: float | None, nothing: str = NOTHING) -> str:
    """Return a share in per cent with one place; `nothing` for None.

    >>> percent(0.25), percent(None, "none")
    ('25.0', 'none')
    """
    return nothing if value is None else f"{100 * value:.1f}"


def with_interval(
    score: Interval | Effect | Mapping[str, float] | None, sign: str = "", *, percent: bool = False
) -> str:
    """Return an estimate with its interval of 95 %, as a fraction or in per cent.

    A mapping is an interval as JSON files have it.

    >>> half = Interval(0.5, 0.25, 0.75, confidence=0.95, n=40, method="")
    >>> with_interval(half), with_interval(half, "+"), with_interval(half, percent=True)
    ('0.500 [0.250, 0.750]', '+0.500 [+0.250, +0.750]', '50.0 [25.0, 75.0]')
    """
    if score is None:
        return NOTHING
    if isinstance(score, Mapping):
        numbers = score["estimate"], score["low"], score["high"]
    else:
        interval = score.interval() if isinstance(score, Effect) else score
        numbers = interval.estimate, interval.low, interval.high
    form, factor = (f"{sign}.1f", 100) if percent else (f"{sign}.3f", 1)
    estimate, low, high = (f"{factor * value:{form}}" for value in numbers)
    return f"{estimate} [{low}, {high}]"


def limits_of(interval: Interval, sign: str = "") -> str:
    """Return an interval without its estimate.

    >>> limits_of(Interval(0.5, 0.25, 0.75, confidence=0.95, n=40, method=""))
    '0.250 to 0.750'
    """
    return f"{interval.low:{sign}.3f} to {interval.high:{sign}.3f}"


# ---- LaTeX ---------------------------------------------------------------------------------------
def escaped(text: str) -> str:
    """Return `text` as LaTeX prints it.

    >>> escaped("50 % of {a_b}")
    '50 \\\\% of \\\\{a\\\\_b\\\\}'
    """
    return "".join(_ESCAPED.get(character, character) for character in one_line(text))


def one_line(text: str) -> str:
    """Return `text` with every run of white space as one space."""
    return " ".join(text.split())


def is_kept_latex(path: Path) -> bool:
    """Return whether a file is one that kept wrote."""
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        return stream.read(len(MARK)) == MARK.encode()


def _latex_row(cells: Iterable[object]) -> str:
    return " & ".join(escaped(str(cell)) for cell in cells) + r" \\"
