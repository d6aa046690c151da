"""`kept predict`: the answers of a fine-tuned run for a text or a file, and what caused them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from kept.apps.cli.options import LinkCase, Threads
from kept.apps.cli.terminal import echo
from kept.apps.cli.training.predict_options import FileOptions, is_file
from kept.errors import ConfigError
from kept.help_texts import FORCE_OUTPUT, KG, RESUME_OUTPUT

if TYPE_CHECKING:
    from kept.training.finetuning.predictor import Explanation

NO_ANSWER, SAME = "no answer is likely enough", "say the same"


def predict(
    run: Annotated[Path, typer.Argument(help="Folder of a run of `kept fit` or `kept finetune`.")],
    text: Annotated[
        str,
        typer.Argument(
            metavar="FILE|TEXT",
            help="A file of texts (.csv, .tsv, .jsonl, or one text per line), or the text itself.",
        ),
    ],
    kg: Annotated[Path, typer.Option("--kg", help=KG)],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="File for the predictions, for a file of texts: JSON lines, or a table if its "
            "name ends in .csv.",
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="USE=NAME",
            help="For a file of texts: which column has which role, such as text=sentence. May "
            "be repeated.",
        ),
    ] = None,
    damage: Annotated[
        str, typer.Option(help="What to do at a line that cannot be read: stop, or skip it.")
    ] = "stop",
    resume: Annotated[bool, typer.Option("--resume", help=RESUME_OUTPUT)] = False,
    force: Annotated[bool, typer.Option("--force", help=FORCE_OUTPUT)] = False,
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            help="Words in the text that the prediction is about. For a relation give it twice: "
            "the head, then the tail.",
        ),
    ] = None,
    context: Annotated[
        str | None,
        typer.Option(help="Text that contains the answer, if the first argument is a question."),
    ] = None,
    choice: Annotated[
        list[str] | None,
        typer.Option(help="One of the answers to choose from. Give it twice or more."),
    ] = None,
    case: LinkCase = None,
    about: Annotated[
        str | None,
        typer.Option(help="With --explain: the class to explain (default: the predicted one)."),
    ] = None,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain", help="Also print what the answer would be without each fact and each link."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    threads: Threads = None,
) -> Any:
    """Predict for a text or a file of texts with a fine-tuned run.

    Texts are linked as in training; the graph may have been edited since. --explain leaves out each
    fact and each link in turn and prints those that change the answer, and for models that attend
    to facts also their share of the attention. A folder of `kept fit` on questions answers a
    question with the facts that support the answer, or prints that the graph does not contain it.

    In a file, every line is predicted and written with its number. Its columns are those of `kept
    fit` without the label (docs/reference/formats-of-texts.md).

    Example: kept predict runs/types people.csv --kg kg/ -o predictions.jsonl
    """
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
    options = FileOptions(output, tuple(column or ()), damage, resume=resume, force=force)
    about_text = {"--target": target, "--context": context, "--choice": choice, "--about": about,
                  "--explain": explain}  # fmt: skip
    if is_file(text):
        options.require_file_only(about_text)
        from kept.apps.cli.training.predict_run import predict_file

        return predict_file(run, Path(text), kg, options, case)
    options.require_text_only(text)
    return _predict_text(
        run, text, kg, target or (), context, choice or (), case, about, explain, as_json
    )


def _predict_text(
    run: Path,
    text: str,
    kg: Path,
    target: Sequence[str],
    context: str | None,
    choice: Sequence[str],
    case: str | None,
    about: str | None,
    explain: bool,
    as_json: bool,
) -> Any:
    import dataclasses
    import json

    from entity_linking.mentions import LinkedText
    from entity_linking.names.rules.case import Case
    from kept.graphs.words import join_texts
    from kept.lab.questions.fitted import FittedAnswerer, answers_questions
    from kept.tasks.datasets.example import question
    from kept.tasks.datasets.questions.choices import choice_example
    from kept.training.finetuning.predictor import Predictor

    if answers_questions(run):
        options = {"--target": target, "--context": context, "--choice": choice, "--about": about,
                 "--explain": explain, "--case": case}  # fmt: skip
        for name, value in options.items():
            if value:
                raise ConfigError(f"{name} is for texts with classes; {run} answers questions")
        answer = FittedAnswerer.open(run, kg).answer(text)
        echo(json.dumps(answer.as_json(), ensure_ascii=False, indent=1) if as_json else answer)
        return answer
    if about is not None and not explain:
        raise ConfigError("--about names the class that --explain explains; give both")
    predictor = Predictor.from_pretrained(run, case=cast(Case | None, case))
    example = question(text, *target)
    if context is not None:
        pair = join_texts(example.linked, LinkedText(context, ()))
        example = dataclasses.replace(example, linked=pair)
    if choice:
        if predictor.kind.rows != "choices":
            raise ConfigError(f"--choice goes with a run of multiple_choice, not {predictor.task}")
        example = choice_example(text, choice)
    if explain:
        explanation = predictor.explain(example, kg, about=about)
        echo(
            json.dumps(explanation.as_json(), ensure_ascii=False, indent=1)
            if as_json
            else _page(explanation)
        )
        return explanation
    (labels,) = predictor.predict([example], kg)
    if choice:
        labels = tuple(choice[int(label) - 1] for label in labels)
    if as_json:
        echo(json.dumps({"text": text, "labels": labels}, ensure_ascii=False))
    else:
        echo(", ".join(labels) or NO_ANSWER)
    return labels


def _page(explanation: Explanation) -> str:
    about, score = explanation.about, explanation.scores[explanation.about]
    answer = explanation.label or f"{NO_ANSWER}; the likeliest is {about}"
    lines = [f"{answer}    ({about}: {score:.3f})"]
    for one in explanation.influences:
        seen = "" if one.attention is None else f"  (attention {one.attention:.3f})"
        label = one.label or NO_ANSWER
        lines.append(f"  {one.change:+.3f}  without {one.kind} {one.what}: {label}{seen}")
    for group in explanation.groups:
        facts = "; ".join(group.what)
        why = "which say the same" if group.why == SAME else "all facts of the mention"
        lines.append(
            f"  {group.change:+.3f}  without {len(group.what)} facts, {why} ({facts}): "
            f"{group.label or NO_ANSWER}"
        )
    if not explanation.influences:
        lines.append("  the model got nothing of the graph")
    return "\n".join(lines)
