"""The private chapter on the demo's page: who knows, an edit, a newcomer, a wrong fact."""

from __future__ import annotations

from pathlib import Path

from kept.lab.demo.private.study import CONDITIONS, FOLDER, PrivateResult
from kept.lab.report.page import Section, picture, prose, quoted, table, verdict
from kept.lab.study.pictures import draw_conditions
from kept.lab.study.tables import with_interval
from kept.training.finetuning.predictor import Explanation

QUESTION = "What does this person work as?"
N_INFLUENCES = 4


def private_sections(result: PrivateResult, folder: Path) -> list[Section]:
    """The chapter's sections; its picture is drawn into `folder/private`."""
    png = folder / FOLDER / "accuracy.png"
    draw_conditions(
        {n: (result.accuracy(n).interval(), result.by_seed(n)) for n in CONDITIONS},
        png,
        label="accuracy",
        lines={"ceiling": result.ceiling, "chance": result.company.world.chance},
        force=True,
    )
    return [_scores(result, png), _edit(result), _newcomers(result), _wrong_facts(result)]


def _scores(result: PrivateResult, png: Path) -> Section:
    world, config, example = result.company.world, result.config, result.company.world.test[0]
    return Section(
        "Chapter 1: a private world, where only the graph knows",
        (
            prose(
                "A company of made-up people, towns and devices. What a person works as is never "
                "said in a text; it is in the graph alone, with facts that say nothing of it. No "
                "test person is in a training text: there is nothing to memorize."
            ),
            quoted(QUESTION, f"{_question(result)}: {example.linked.text} → {example.labels[0]}"),
            verdict(_finding(result)),
            picture(png, "Accuracy under each condition, one point per seed"),
            table(
                ("condition", "graph and links", "right", "accuracy", "true minus it"),
                [_row(result, name) for name in CONDITIONS],
                "In brackets 95 % intervals over seeds and questions, both treated as samples",
            ),
            *map(prose, _notes(result)),
            prose(
                f"{config.arm} on the first {config.n_layers} layers of {config.host}, trained "
                f"and evaluated under each condition: {config.steps} steps of "
                f"{config.batch_size} texts, "
                f"{len(config.seeds)} seeds. {len(world.train)} training and {len(world.test)} "
                f"test questions over {world.graph.n_entities} entities and "
                f"{world.graph.n_triples} facts. Links by the graph's own names: {result.links}. "
                "The ceiling is the share of test questions whose person was linked rightly."
            ),
        ),
    )


def _finding(result: PrivateResult) -> str:
    true, off, shuffled = (result.accuracy(n).estimate for n in ("true", "off", "shuffled"))
    chance, gain = result.company.world.chance, result.gain("off").interval()
    doubt = "" if gain.low > 0 else "; it is not shown here that facts help"
    return (
        f"With true facts {true:.1%} of the answers are right, with the text alone {off:.1%}, with "
        f"shuffled facts {shuffled:.1%}; chance is {chance:.1%}, the ceiling {result.ceiling:.1%}. "
        f"True facts give {with_interval(gain, '+')} over the text alone, where ceiling and "
        f"chance differ by {result.ceiling - chance:.3f}{doubt}."
    )


def _row(result: PrivateResult, name: str) -> tuple[str, ...]:
    right = result.right[name]
    return (
        name,
        CONDITIONS[name],
        f"{sum(map(sum, right))} of {sum(map(len, right))}",
        with_interval(result.accuracy(name)),
        "" if name == "true" else with_interval(result.gain(name), "+"),
    )


def _notes(result: PrivateResult) -> list[str]:
    """Notes on the table."""
    notes, n = [], len(result.company.world.test)
    if all(map(all, result.right["true"])):
        notes.append(
            "Where every answer is right nothing varies, and the interval has no width; none wrong "
            f"of {n} questions leaves room for {3 / n:.1%} (the rule of three)."
        )
    if result.right["anchors-only"] == result.right["off"]:
        notes.append(
            "The last two rows are equal: an entity without a fact adds nothing to what this "
            "method reads."
        )
    return notes


def _question(result: PrivateResult) -> str:
    example = result.company.world.test[0]
    target = example.targets[0]
    return example.linked.text[target.start : target.end]


def _edit(result: PrivateResult) -> Section:
    edited = result.changes.edited
    return Section(
        "A fact is edited, and the answer is predicted again",
        (
            verdict(
                f"The roles of all {edited.n} people were changed in the graph, and nothing was "
                f"trained: {edited.new:.1%} of the answers are the new role, {edited.old:.1%} "
                "still the old one."
            ),
            _explained(edited.before, "As it was: the answer, and what it is without each piece"),
            _explained(edited.after, "With one fact edited"),
            prose(
                "The gain of a fact is the fall of the score without it; attention is the share "
                "of the fact's nodes in what the head reads (attention rollout)."
            ),
        ),
    )


def _newcomers(result: PrivateResult) -> Section:
    added = result.changes.added
    return Section(
        "People join after training",
        (
            verdict(
                f"{added.n} people whom no training text or graph has held were added with their "
                f"facts: {added.accuracy:.1%} of the questions about them are answered rightly, "
                f"{added.without:.1%} before they were added."
            ),
            _explained(added.explanation, "One of them"),
        ),
    )


def _wrong_facts(result: PrivateResult) -> Section:
    misled = result.changes.misled
    blocks = [
        verdict(
            f"A wrong role was added to the right one of all {misled.n} people: "
            f"{misled.wrong:.1%} of the answers are the wrong role, {misled.right:.1%} the right."
        )
    ]
    if misled.named is not None and misled.restored is not None:
        blocks.append(
            prose(
                f"Which fact caused it? Each is left out in turn. In {misled.named:.1%} of "
                f"{misled.n_explained} such answers, the fact that moves the answer most is the "
                f"one that was added; in {misled.restored:.1%} the answer is right without it."
            )
        )
    if misled.explanation is not None:
        added = misled.explanation.influences[0].what
        blocks.append(_explained(misled.explanation, f"A misled answer, where “{added}” was added"))
    return Section("A wrong fact misleads, and is found", tuple(blocks))


def _explained(explanation: Explanation, caption: str) -> str:
    rows = [
        (
            one.what,
            one.kind,
            f"{one.score:.3f}",
            f"{one.change:+z.3f}",
            one.label,
            "" if one.attention is None else f"{one.attention:.3f}",
        )
        for one in explanation.influences[:N_INFLUENCES]
    ]
    score = explanation.scores[explanation.about]
    return table(
        ("left out", "kind", f"p({explanation.about})", "gain", "answer", "attention"),
        [("nothing", "", f"{score:.3f}", "", explanation.label, ""), *rows],
        f"{caption}: {explanation.text} → {explanation.label}",
    )
