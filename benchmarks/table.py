"""The page of what the scripts printed, beside what is asked; what falls short stands first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.asked import AIMS, Aim
from benchmarks.machine import in_words
from benchmarks.running import Job

Lines = list[dict[str, Any]]
Results = Mapping[str, tuple[dict[str, Any], Lines]]
ROOM = 0.1
"""By how much a fitted power may lie above that of n log n: as much as two runs differ."""
SHORT, MET, AIM, UNKNOWN = "**falls short**", "met", "met, aim too", "**not measured**"
ORDER = (SHORT, UNKNOWN, MET, AIM)
OURS = ("kept_s", "kept_ms", "one_s", "peak_gb")
PEER = ("peer_s", "peer_ms", "two_s")
FLOOR = ("floor_s",)


def page(results: Results, machine: dict[str, Any], aims: Sequence[Aim] = AIMS) -> str:
    """Markdown: the machine, what is asked, growth, runs."""
    runs = [run for run, _ in results.values()]
    failed = [run for run in runs if run["exit_code"] != 0]
    rows = sorted((judged(each, results) for each in aims), key=lambda row: ORDER.index(row[-1]))
    powers = sorted(grown(results), key=lambda row: ORDER.index(row[-1]))
    n_met, n_grown = (sum(row[-1] in (MET, AIM) for row in part) for part in (rows, powers))
    commits = sorted({f"{run['commit']}{' and changes' * bool(run['changed'])}" for run in runs})
    return "\n".join(
        [
            "# What the benchmarks printed",
            "",
            ("Written by `python -m benchmarks` from the lines in this folder; what misses its "
             "aim is first. Ours and the peer took turns in one run."),
            "",
            f"**Machine**: {in_words(machine)}",
            "",
            (f"**Code**: {', '.join(commits)}. {n_met} of {len(rows)} rows reach what is required; "
            f"{n_grown} of {len(powers)} costs grow no faster than n log n."),
            *[f"\n**`{run['script']}` failed**: {run['exit_code']}" for run in failed],
            "",
            *[f"- {reason}" for reason in left_out(results)],
            "",
            "## Compared with what is required",
            "",
            *_table(("work", "script", "against", "at", "ours", "theirs", "floor", "figure",
                     "asked", "aim", ""), rows),
            "",
            "## As work grows",
            "",
            ("The cost grows as the size to this power, fitted over the sizes. *n log n* is what "
             f"that would be over the same sizes, and {ROOM:g} above it counts as noise."),
            "",
            *_table(("row", "script", "of", "sizes", "ours", "theirs", "n log n", ""), powers),
            "",
            "## Runs",
            "",
            *_table(("command", "begun", "seconds", "of processor", "load before, after",
                     "lines", "exit"), [_run(*each) for each in results.values()]),
            "",
        ]
    )  # fmt: skip


def left_out(results: Results) -> list[str]:
    """What scripts say that they did not measure."""
    return [
        f"`{run['script'].partition('/')[2]}`: "
        + ": ".join(value for name, value in line.items() if isinstance(value, str))
        for run, lines in results.values()
        for line in lines
        if line.keys() & {"skipped", "said"}
    ]


def judged(aim: Aim, results: Results) -> list[str]:
    """The cells of a row; the last says whether it is met."""
    name = Job(f"benchmarks/{aim.script}", large=aim.large).name
    line = _line(aim, results[name][1]) if name in results else None
    cells = [aim.work, f"`{aim.script}`{' --large' * aim.large}", aim.against]
    bounds = [aim.bound, "" if aim.aim is None else f"{aim.aim:g}"]
    if line is None:
        return [*cells, "", "", "", "", "–", *bounds, UNKNOWN]
    value = figure(aim.value, line)
    state = AIM if aim.reaches_aim(value) else MET
    if not aim.holds(value) or not line.get("equal", True):
        state = SHORT
    unequal = "" if line.get("equal", True) else ", results differ"
    return [*cells, _sizes(aim, line), _first(OURS, line), _first(PEER, line),
            _first(FLOOR, line), f"{value:g}{unequal}", *bounds, state]  # fmt: skip


def _line(aim: Aim, lines: Lines) -> dict[str, Any] | None:
    """The last that is about the row and has its figure."""
    fields = aim.value.split("/")
    lines_of_size = [
        line
        for line in lines
        if all(line.get(name) == value for name, value in aim.where.items())
        and all(name in line for name in fields)
    ]
    return lines_of_size[-1] if lines_of_size else None


def figure(value: str, line: dict[str, Any]) -> float:
    """A field, or one through another."""
    name, _, other = value.partition("/")
    return round(line[name] / max(line[other], 1e-9), 2) if other else float(line[name])


def _sizes(aim: Aim, line: dict[str, Any]) -> str:
    sizes = {
        name: value
        for name, value in line.items()
        if type(value) is int and "_" not in name and name not in aim.where
    }
    return ", ".join(f"{value:,} {name}" for name, value in list(sizes.items())[:1])


def _first(names: Sequence[str], line: dict[str, Any]) -> str:
    for name in names:
        if name in line:
            return f"{line[name]:g} {name.rsplit('_', 1)[-1]}"
    return ""


def grown(results: Results) -> list[list[str]]:
    """A row for each fitted power."""
    rows = []
    for run, lines in results.values():
        for line in lines:
            if "kept_exponent" not in line:
                continue
            ours, most = line["kept_exponent"], line["n_log_n"]
            extra = [str(line[name]) for name in ("method", "kind", "peer", "mode", "case")
                     if name in line]  # fmt: skip
            rows.append([
                ", ".join([line["row"], *extra]), f"`{run['script'].partition('/')[2]}`",
                line["of"], ", ".join(f"{size:,}" for size in line["sizes"]), f"{ours:g}",
                f"{line['peer_exponent']:g}" if "peer_exponent" in line else "", f"{most:g}",
                MET if ours <= most + ROOM else SHORT,
            ])  # fmt: skip
    return rows


def _run(run: dict[str, Any], lines: Lines) -> list[str]:
    return [
        f"`{' '.join(filter(None, (run['script'].partition('/')[2], run['flags'])))}`",
        run["begun"], f"{run['seconds']:,.0f}", f"{run['processor_s']:,.0f}",
        f"{run['load_before']:g}, {run['load_after']:g}", str(len(lines)), str(run["exit_code"]),
    ]  # fmt: skip


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]
