"""The page of results."""

from __future__ import annotations

from typing import Any

from kept.lab.study.cells import page_of
from kept.lab.study.tables import Table, with_interval

CATEGORY_RULE = (
    "Bordes et al. 2013: a side is 1 where a question for it has fewer than 1.5 answers on average "
    "in the training triples; heads first."
)
METRICS = ("mrr", "hits@1", "hits@10")


def page(results: dict[str, Any], plan: dict[str, Any], audit: str) -> str:
    """Everything that was measured, with its conditions, as Markdown."""
    published = plan["published"]
    parts: list[str | Table] = [
        f"`{results['command']}`, seed {results['seed']}.",
        _main_table(results, published["ranking"]), _conditions(results),
        f"Published: {published['from']}.", f"What differs: {plan['differs']}",
    ]  # fmt: skip
    if any("classification" in result for result in results["scorers"].values()):
        parts += ["## Triple classification", *_classification(results, published)]
    for title, name, what in (
        ("By side", "directions", "MRR / Hits@1 / Hits@10 where that side is predicted."),
        ("By relation category", "categories", CATEGORY_RULE),
        ("By degree of the answer", "degrees", "Training triples that hold the answer."),
    ):  # fmt: skip
        table = _by_side(results) if name == "directions" else _groups(results, name)
        parts += [f"## {title}", what, table]
    parts += ["## What the training triples give away", audit]
    return page_of(f"Triple scorers on {results['dataset']}", "", *parts)


def _main_table(results: dict[str, Any], published: dict[str, Any]) -> Table:
    columns = (
        "scorer", "MRR [95 % CI]", "Hits@1", "Hits@10", "published MRR / H@1 / H@10", "gap in MRR",
        "valid MRR", "relation MRR", "epochs (best)", "numbers", "CPU seconds",
    )  # fmt: skip
    rows = []
    for name, result in results["scorers"].items():
        metrics, (low, high) = result["metrics"], result["mrr_interval"]
        theirs = published.get(name)
        rows.append([
            name, _three_numbers(metrics["mrr"], low, high), f"{metrics['hits@1']:.3f}",
            f"{metrics['hits@10']:.3f}", _three(theirs) if theirs else "none",
            f"{metrics['mrr'] - theirs['mrr']:+.3f}" if theirs else "",
            *_training_cells(result),
        ])  # fmt: skip
    return Table(columns, rows)


def _training_cells(result: dict[str, Any]) -> list[str]:
    relation = f"{result['relation_metrics']['mrr']:.3f}"
    training = result.get("training")
    if training is None:
        return ["", relation, "", "0", ""]
    best = max((value for _, value in training["validations"]), default=float("nan"))
    epochs = f"{training['n_epochs']} ({training['best_epoch']})"
    if training["budget_used_up"]:
        epochs += ", budget used up"
    return [f"{best:.3f}", relation, epochs, f"{training['n_parameters']:,}",
            f"{training['cpu_seconds']:.0f}"]  # fmt: skip


def _conditions(results: dict[str, Any]) -> str:
    conditions = next(iter(results["scorers"].values()))["conditions"]
    return (
        f"Entities: {conditions['n_asked']} questions, {conditions['n_scored']} scored, skipped "
        f"{conditions['n_skipped'] or 'none'}. {results['n_unseen']} test triples hold an entity "
        "or a relation unseen in training and are evaluated all the same. Ties "
        f"{conditions['ties']}; "
        f"filter {conditions['filter']}; both sides; candidates {conditions['candidates']}. The "
        "interval is a bootstrap over test triples, of one seed: it does not hold the spread over "
        "seeds. Relations: one question per test triple, the same filter, all relations compete. "
        "The baseline *degree* ranks entities by how many training triples have them on that "
        "side of the relation."
    )


def _classification(results: dict[str, Any], published: dict[str, Any]) -> tuple[Table, str]:
    theirs, rows, rule = published.get("classification", {}), [], ""
    for name, result in results["scorers"].items():
        if "classification" not in result:
            continue
        scores = result["classification"]
        cited = theirs.get(name)
        rows.append([
            name, _three_numbers(*scores["accuracy"]), _three_numbers(*scores["f1"]),
            " / ".join(f"{cited[key]:.3f}" for key in ("accuracy", "f1")) if cited else "none",
        ])  # fmt: skip
        rule = f"{scores['n_true']} true and {scores['n_false']} false triples; {scores['rule']}."
    table = Table(("scorer", "accuracy [95 % CI]", "F1 [95 % CI]", "published"), rows)
    return table, f"Hard negatives of the data set: {rule}"


def _by_side(results: dict[str, Any]) -> Table:
    rows = [[name, *(_three(result["directions"][side]) for side in ("head", "tail"))]
            for name, result in results["scorers"].items()]  # fmt: skip
    return Table(("scorer", "heads", "tails"), rows)


def _groups(results: dict[str, Any], name: str) -> Table:
    """MRR of every scorer in every group, a column each, heads and tails apart."""
    first = next(iter(results["scorers"].values()))[name]
    rows = []
    for side in ("head", "tail"):
        for group, metrics in first[side].items():
            values = (result[name][side][group]["mrr"] for result in results["scorers"].values())
            rows.append([f"{side}s", group, f"{metrics['n']:.0f}", *(f"{v:.3f}" for v in values)])
    return Table(("asked", "group", "questions", *(f"{s} MRR" for s in results["scorers"])), rows)


def _three(metrics: dict[str, float]) -> str:
    return " / ".join(f"{metrics[name]:.3f}" for name in METRICS)


def _three_numbers(estimate: float, low: float, high: float) -> str:
    return with_interval({"estimate": estimate, "low": low, "high": high})
