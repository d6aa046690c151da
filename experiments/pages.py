"""Committed pages of comparisons once more, from what is committed: the answers are not kept.

Scores, seeds, differences and verdicts come from NAME.scores.csv, NAME.pairs.csv and
`experiments.verdicts`, costs and published numbers from NAME.results.md, the drawn examples from
the page as it stands. Gains by what the graph says of an item need the answers and are not given.
A page that `kept report` makes of runs has them.

    python -m experiments.pages        # writes NAME.html beside NAME.pairs.csv
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, variance

from experiments.verdicts import COLUMNS, FOLDER, interval_variance, numbers, read_rows, verdicts
from kept.evaluation.crossed import Effect
from kept.lab.report.dots import Dot, dots
from kept.lab.report.page import Section, page, picture, prose, table, verdict
from kg_loaders.disk.writing import write_text

KINDS = "true", "shuffled", "off"
EXAMPLES = re.compile(
    r"<h2[^>]*>(What [^<]+ changed)</h2>(?:</summary>)?\n(.*?)(?=<h2|<details|</details>|</body>)",
    re.DOTALL,
)
HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
TAKEN = "Costs", "Published", "Shares, means over seeds"


def main() -> None:
    for path in sorted(FOLDER.glob("*/*.pairs.csv")):
        target = path.with_name(f"{path.name.removesuffix('.pairs.csv')}.html")
        write_text(target, rebuilt(target), force=True)
        print(target.relative_to(FOLDER))


def rebuilt(path: Path) -> str:
    """Return the page that stands at `path`, its numbers from the files beside it."""
    stem = path.name.removesuffix(".html")
    files = {
        kind: path.with_name(f"{stem}.{kind}")
        for kind in ("scores.csv", "pairs.csv", "results.md", "curves.png", "differences.csv")
    }
    rows = verdicts(files["scores.csv"], files["pairs.csv"])
    scores = read_rows(files["scores.csv"])
    score_cells = [list(row.values()) for row in scores]
    sections = [
        Section("", (verdict(sentence(rows)), picture_of(scores, rows), prose(ORIGIN))),
        Section("Verdicts", (table(COLUMNS, rows, "True knowledge minus the other"),), folded=True),
        Section("Scores", (table(list(scores[0]), score_cells, "Scores"),), folded=True),
        *of_markdown(files["results.md"].read_text(encoding="utf-8")),
        Section("Curves", (picture(files["curves.png"], "Losses of the task"),), folded=True),
        *(
            Section(title, (blocks.strip(),), folded=True)
            for title, blocks in EXAMPLES.findall(path.read_text(encoding="utf-8"))
        ),
    ]
    return page(stem, "", sections)


ORIGIN = (
    "Made from the committed scores and differences; the runs' answers are not kept. Intervals "
    "are over seeds and items: the variance of items is taken whole from an older interval, which "
    "makes them too long. What depends on an item's facts (the placebo) cannot be computed "
    "without the answers. The examples were chosen when the runs were made."
)


def sentence(rows: Sequence[Sequence[str]]) -> str:
    """The verdict of the page: what is shown against none, and against shuffled facts.

    >>> sentence([["ERNIE", "none", *[""] * 8, "not shown"]])
    'Over seeds and items no method of 1 is shown to be better than none.'
    """
    parts = []
    for against, words in (("none", "none"), ("knowledge shuffled", "with shuffled facts")):
        of_rival = [row for row in rows if row[1] == against]
        if not of_rival:
            continue
        better = [row[0] for row in of_rival if row[-1] == f"{row[0]} is better"]
        others = [f" ({row[0]}: {row[-1]})" for row in of_rival if row[0] not in better]
        others = [each for each in others if not each.endswith(": not shown)")]
        names = ", ".join(better) or f"no method of {len(of_rival)}"
        parts.append(f"{names} is shown to be better than {words}{''.join(others)}")
    return f"Over seeds and items {'; '.join(parts)}."


def picture_of(scores: Sequence[dict[str, str]], rows: Sequence[Sequence[str]]) -> str:
    """Every method and kind of knowledge with its seeds; copies of none's model are left out."""
    against_none = {row[0]: remark(row) for row in rows if row[1] == "none"}
    measured = [row for row in scores if row["seeds"] and "same model" not in row["knowledge"]]
    methods = list(dict.fromkeys(row["method"] for row in measured))
    measured.sort(key=lambda row: (methods.index(row["method"]), KINDS.index(row["knowledge"])))
    marks = []
    for row in measured:
        is_base = row["method"] == "none"
        effect = score_effect(row)
        marks.append(
            Dot(
                row["method"],
                "no knowledge" if is_base else row["knowledge"],
                effect.interval(),
                points=tuple(numbers(row["seeds"])),
                mark=KINDS.index(row["knowledge"]),
                remark=against_none.get(row["method"], ""),
            )
        )
    base = next(fmean(numbers(row["seeds"])) for row in measured if row["method"] == "none")
    caption = (
        "Score on the evaluation split. A large mark is the mean over seeds, the line through it "
        "its 95 % interval, each small dot one seed; the dashed line is none."
    )
    return dots(marks, caption, line=base)


def remark(row: Sequence[str]) -> str:
    """A method's verdict against none, with the smallest effect that could have been seen."""
    word = "better than none" if row[-1] == f"{row[0]} is better" else row[-1]
    word = "not shown to differ from none" if word == "not shown" else word
    if row[COLUMNS.index("not visible below")] == "one seed":
        return word
    return f"{word}; effects below {row[COLUMNS.index('not visible below')]} are not visible"


def score_effect(row: dict[str, str]) -> Effect:
    """A score over seeds and items, from its seeds and the committed interval over items."""
    seeds = numbers(row["seeds"])
    of_seeds = variance(seeds) / len(seeds) if len(seeds) > 1 else None
    n_items = int(row["n"].split()[0])
    of_items = interval_variance(row["95 % interval"])
    return Effect(fmean(seeds), of_seeds, of_items, len(seeds), n_items)


def of_markdown(text: str) -> Iterator[Section]:
    """The parts of a committed Markdown page that need no answers, as folded sections."""
    parts = HEADING.split(text)
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        if title in TAKEN:
            yield Section(title, tuple(blocks_of(body)), folded=True)


def blocks_of(body: str) -> Iterator[str]:
    """Tables and paragraphs of a part; a list's items are paragraphs."""
    for block in re.split(r"\n\s*\n", body.strip()):
        lines = block.splitlines()
        if lines and lines[0].startswith("|"):
            cells = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]
            width = len(cells[0])
            yield table(cells[0], [(row + [""] * width)[:width] for row in cells[2:]], "")
        else:
            yield from (prose(line.removeprefix("- ")) for line in lines)


if __name__ == "__main__":
    main()
