"""`kept predict`: the answers of a fine-tuned run for a text or a file, and what caused them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from kept.apps.cli.declared import Declared
from kept.apps.cli.options import require_graph
from kept.apps.cli.terminal import echo
from kept.errors import CheckpointError, ConfigError
from kg_loaders.counting import counted

if TYPE_CHECKING:
    from kept.apps.cli.training.predict_options import PredictOptions
    from kept.tasks.datasets.example import TaskExample
    from kept.training.finetuning.predictor import Explanation, Predictor

RUN_FILES = ("finetune.json", "questions.json")
"""The settings of a run, of texts with classes and of questions."""
NO_ANSWER, SAME = "no answer is likely enough", "say the same"


def predict(options: PredictOptions) -> Any:
    """Predict for a text or a file of texts with a fine-tuned run.

    Texts are linked as in training; the graph may have been edited since. --explain leaves out each
    fact and each link in turn and prints those that change the answer, and for models that attend
    to facts also their share of the attention. A folder of `kept fit` on questions answers a
    question with the facts that support the answer, or prints that the graph does not contain it.

    In a file, every line is predicted and written with its number. Its columns are those of `kept
    fit` without the label (docs/reference/formats-of-texts.md).

    Example: kept predict runs/types people.csv --kg kg/ -o predictions.jsonl
    """
    if options.is_file:
        options.require_file_options()
    else:
        options.require_text_options()
    require_graph(options.kg)
    _require_run(options.run)
    if options.threads is not None:
        import torch

        torch.set_num_threads(options.threads)
    if options.is_file:
        from kept.apps.cli.training.predict_run import predict_file

        return predict_file(options)
    from kept.lab.questions.fitted import answers_questions

    return (_answer if answers_questions(options.run) else _predict_text)(options)


def _require_run(run: Path) -> None:
    """Raise the error of `Predictor.from_pretrained` for a folder that is no run."""
    if not any((run / name).is_file() for name in RUN_FILES):
        raise CheckpointError(
            f"{run} has no {RUN_FILES[0]}: give a folder of kept finetune or kept fit"
        )


def _answer(options: PredictOptions) -> Any:
    import json

    from kept.lab.questions.fitted import FittedAnswerer

    options.require_question_options()
    answer = FittedAnswerer.open(options.run, options.kg).answer(options.text)
    as_json = options.as_json
    echo(json.dumps(answer.as_json(), ensure_ascii=False, indent=1) if as_json else answer)
    return answer


def _predict_text(options: PredictOptions) -> Any:
    import json

    from entity_linking.names.rules.case import Case
    from kept.results import Result
    from kept.training.finetuning.predictor import Predictor

    if options.about is not None and not options.explain:
        raise ConfigError("--about names the class that --explain explains; give both")
    predictor = Predictor.from_pretrained(options.run, case=cast(Case | None, options.case))
    example = _example(options, predictor)
    if options.explain:
        explanation = predictor.explain(example, options.kg, about=options.about)
        echo(
            json.dumps(explanation.as_json(), ensure_ascii=False, indent=1)
            if options.as_json
            else _page(explanation)
        )
        return explanation
    (prediction,) = predictor.predictions([example], options.kg)
    labels = prediction.labels
    if options.choice:
        labels = tuple(options.choice[int(label) - 1] for label in labels)
    if options.as_json:
        echo(json.dumps({"text": options.text, "labels": labels}, ensure_ascii=False))
    else:
        echo(", ".join(labels) or NO_ANSWER)
    fields = predictor.kind.fields_of(prediction, {"choices": list(options.choice)})
    return Result(values={"text": options.text, **fields})


def _example(options: PredictOptions, predictor: Predictor) -> TaskExample:
    """The text as an example of the run's task."""
    import dataclasses

    from entity_linking.mentions import LinkedText
    from kept.graphs.words import join_texts
    from kept.tasks.datasets.example import question
    from kept.tasks.datasets.questions.choices import choice_example

    example = question(options.text, *options.target)
    if options.context is not None:
        pair = join_texts(example.linked, LinkedText(options.context, ()))
        example = dataclasses.replace(example, linked=pair)
    if not options.choice:
        return example
    if predictor.kind.rows != "choices":
        raise ConfigError(f"--choice goes with a run of multiple_choice, not {predictor.task}")
    return choice_example(options.text, options.choice)


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
            f"  {group.change:+.3f}  without {counted(len(group.what), 'facts')}, {why} ({facts}): "
            f"{group.label or NO_ANSWER}"
        )
    if not explanation.influences:
        lines.append("  the model got nothing of the graph")
    return "\n".join(lines)


predict_command = Declared(
    "kept.apps.cli.training.predict_options:PredictOptions", predict, arguments=["run", "text"]
)
