"""The tables of the experiment, from the rows that are there; what is missing is named."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.lama.data import KNOWLEDGE
from experiments.lama.study import HOST, TEXT_ONLY, LamaStudy
from kept.evaluation.statistics import paired_bootstrap_interval, sign_flip_test, verdict
from kept.lab.probing.results import read_answers
from kept.lab.study.cells import NONE
from kept.lab.study.origins import read_stored, require_same_data
from kept.lab.study.tables import Table, percent, with_interval
from kept.randomness import generator

RESULT, TRAINED, NAMES = "result.json", "trained.json", "names.json"
CellResult = Mapping[str, Any]
HEADINGS = {
    "held_out": "without the probed facts", "given": "with the probed facts", None: "no graph",
}  # fmt: skip


def values_of(study: LamaStudy, out: Path) -> dict[str, Any]:
    """Return what the tables show, from the rows that are stored in `out`.

    Raises `CheckpointError` for a file that came of other settings, or of other data than the rest.
    """
    rows = {row.name: row for row in study.rows}
    results = {name: out / name / RESULT for name in rows}
    probed = [
        one
        for name, path in results.items()
        for one in read_stored(path, {"settings": study.probe_settings_of(rows[name])}) or []
    ]
    trained = {
        name: read_stored(out / name / TRAINED, {"settings": study.settings_of(row)}) or {}
        for name, row in rows.items()
    }
    require_same_data(results.values())
    require_same_data(out / name / TRAINED for name in rows)
    missing = [name for name, path in results.items() if not path.exists()]
    differences = _differences(probed, study, out)
    return {"trained": trained, "probed": probed, "missing": missing, "differences": differences}


def to_markdown(study: LamaStudy, content: CellResult, out: Path) -> str:
    """Every table as Markdown."""
    results = content["probed"]
    parts = [_about(study), _main_table(study, results, content["differences"])]
    if content["missing"]:
        parts.append(f"Not run yet: {', '.join(content['missing'])}.")
    names = read_stored(out / NAMES, {"settings": study.probe_settings_of(study.row(HOST))})
    if names is not None:
        parts.append(f"LAMA-UHN: {names['told']}.")
    parts += [_training_table(content["trained"]), _robustness(results), _further(results)]
    parts += [_by_degree(results), _by_relation(results)]
    for knowledge in KNOWLEDGE:
        path = out / f"audit-{knowledge}.md"
        if path.exists():
            audit = path.read_text(encoding="utf-8").strip()
            parts.append(f"Audit, graph {HEADINGS[knowledge]}:\n\n{audit}")
    return "\n\n".join(part for part in parts if part) + "\n"


def _about(study: LamaStudy) -> str:
    return (
        f"Host {study.host}, seed {study.seed}; {study.facts_per_relation} facts a relation at "
        f"most. Pre-training {study.head.steps} steps, every row {study.training.steps} more of "
        f"{study.training.batch_size} sentences. *Objects*: among all objects of the relation, of"
        " any number of pieces. *Restricted*: among the one-piece words of LAMA's common "
        "vocabulary. P@1 in per cent with 95 % intervals (over facts). *Majority*: the "
        "relation's most frequent object among the facts that are not probed. Other right "
        "answers of the question are left out, as they are for every row."
    )


def _main_table(
    study: LamaStudy, results: Sequence[CellResult], differences: Mapping[str, CellResult]
) -> str:
    columns = (
        "row", "graph", "answers from", "facts shown", "asked", "objects: scored", "P@1",
        "majority", "P@10", "ECE", "mean of relations", "UHN, mean of relations",
        "restricted: scored", "P@1 restricted", "against text only, P@1 objects",
    )  # fmt: skip
    rows = {row.name: row for row in study.rows}
    lines = []
    for one in results:
        row, objects, words = rows[one["row"]], one["objects"], one["restricted"]
        total = objects["all"]
        lines.append(
            (
                row.method, HEADINGS[row.knowledge], one["mode"],
                one["n_shown"] if one["mode"] == "graph" else "none", total["n_asked"],
                total["n_scored"], score(total), _percent(total["majority"]),
                _percent(total["p_at_10"]), _percent(total["calibration_error"]),
                score(objects["relations"]), score(objects["without helpful names"]),
                words["all"]["n_scored"], score(words["all"]),
                _difference(differences.get(f"{one['row']} {one['mode']}")),
            )
        )  # fmt: skip
    return _table(columns, lines)


def _training_table(trained: Mapping[str, CellResult]) -> str:
    columns = ("row", "steps", "sentences", "CPU min", "parameters added", "trained", "last losses")
    lines = []
    for name, one in trained.items():
        if one:
            sizes, losses = one["parameters"], one["losses"]
            added = sizes["added by the encoder"] + sizes["added by the objectives"]
            lines.append(
                (
                    name, one["steps"], one["sentences"], f"{one['cpu_minutes']:.1f}",
                    f"{added:,}", f"{sizes['trained']:,}",
                    ", ".join(f"{key} {value:.2f}" for key, value in losses.items()),
                )
            )  # fmt: skip
    return _table(columns, lines)


def _robustness(results: Sequence[CellResult]) -> str:
    columns = (
        "row", "answers from", "paraphrased facts", "consistent", "all right", "negated",
        "same first answer", "rank correlation", "misprimed", "P@1", "P@1 behind the prime",
        "prime answered",
    )  # fmt: skip
    lines = []
    for one in results:
        same, other = one["consistency"], one["altered"]
        line = [
            one["row"], one["mode"], sum(row["n_facts"] for row in same["relations"]),
            _interval(same["consistent"]), _interval(same["consistent_and_right"]),
        ]  # fmt: skip
        if other is not None:
            line += [other["n_negated"], _interval(other["same_when_negated"])]
            rho = other["rank_correlation"]
            line.append("–" if rho is None else f"{rho['estimate']:.2f}")
            line.append(other["n_misprimed"])
            names = ("right", "right_when_misprimed", "prime_answered")
            line += [_interval(other[name]) for name in names]
        lines.append(tuple(line + ["–"] * (len(columns) - len(line))))
    return _table(columns, lines)


def _further(results: Sequence[CellResult]) -> str:
    rows = [one for one in results if one.get("further")]
    names = dict.fromkeys(name for one in rows for name in one["further"])
    lines = [
        (one["row"], name, part["n_asked"], part["n_scored"], score(part),
         _percent(part["majority"]))
        for one in rows for name in names for part in (one["further"][name],)
    ]  # fmt: skip
    columns = ("row", "collection", "asked", "scored", "P@1 restricted", "majority of its own")
    return _table(columns, lines)


def _by_degree(results: Sequence[CellResult]) -> str:
    return _pivot(
        results, "by degree", "row: P@1 among objects by degree of the subject (n scored)"
    )


def _by_relation(results: Sequence[CellResult]) -> str:
    return _pivot(results, "by relation", "row: P@1 among objects by relation (n scored)")


def _pivot(results: Sequence[CellResult], part: str, heading: str) -> str:
    """A line for each relation or bin, with n and majority, and a column for each row and mode."""
    if not results:
        return ""
    first = results[0]["objects"][part]
    columns = (heading.split(": ", 1)[1], "majority", *(f"{o['row']} {o['mode']}" for o in results))
    lines = []
    for number, row in enumerate(first):
        values = [_percent(one["objects"][part][number]["p_at_1"]) for one in results]
        name = f"{row['name']} ({row['n_scored']} of {row['n_asked']})"
        lines.append((name, _percent(row["majority"]), *values))
    return _table(columns, lines)


def _differences(
    results: Iterable[CellResult], study: LamaStudy, out: Path
) -> dict[str, CellResult]:
    """P@1 among objects of every row and mode, less that of text alone, on the same questions."""
    base = out / TEXT_ONLY / "answers-weights.jsonl"
    if not base.exists():
        return {}
    theirs = {answer.id: score for answer, score in read_answers(base).scored("objects")}
    differences: dict[str, CellResult] = {}
    for one in results:
        if one["row"] == TEXT_ONLY:
            continue
        result = read_answers(out / one["row"] / f"answers-{one['mode']}.jsonl")
        pairs = [(a, r, theirs[a.id]) for a, r in result.scored("objects") if a.id in theirs]
        ours = [ranking.hit(1) for _, ranking, _ in pairs]
        others = [ranking.hit(1) for _, _, ranking in pairs]
        groups = [pair[0].group for pair in pairs]
        draws = generator(study.seed, "against text only", one["row"], one["mode"])
        interval = paired_bootstrap_interval(ours, others, generator=draws, clusters=groups)
        p = sign_flip_test(ours, others, generator=draws, clusters=groups)
        differences[f"{one['row']} {one['mode']}"] = {
            "estimate": interval.estimate, "low": interval.low, "high": interval.high, "p": p,
            "n": len(pairs), "verdict": verdict(interval, p, ours=one["row"], theirs="text only"),
        }  # fmt: skip
    return differences


def _table(columns: Sequence[str], lines: Sequence[Sequence[Any]]) -> str:
    return Table(columns, lines).markdown().rstrip() if lines else ""


def _percent(value: float | None) -> str:
    return percent(value, NONE)


def score(row: CellResult) -> str:
    """Return P@1 of a row of a probe with its interval, if it has one, in per cent."""
    interval = row["interval"]
    if interval is None:
        return _percent(row["p_at_1"])
    return f"{_percent(row['p_at_1'])} [{percent(interval['low'])}, {percent(interval['high'])}]"


def _interval(interval: CellResult, sign: str = "") -> str:
    return with_interval(interval, sign, percent=True)


def _difference(difference: CellResult | None) -> str:
    if difference is None:
        return "–"
    return f"{_interval(difference, '+')}, p {difference['p']:.3f}: {difference['verdict']}"
