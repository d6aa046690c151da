"""`kept check analogies`: whether places of words hold relations.

The work is in `kept.lab.probing.words`, imported when the command runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kept.apps.cli.declared import argument, option, required, switch, takes
from kept.apps.cli.options import local_or_hub
from kept.bounds import MAX_SEED
from kept.help_texts import FORCE_FILES, SEED

PAGE, VALUES = "analogies.md", "analogies.json"


def _spaces(names: list[str]) -> list[str]:
    for name in names:
        if not name.endswith(".txt"):
            local_or_hub(name)
    return names


@dataclass(frozen=True, kw_only=True)
class AnalogiesOptions:
    """What the command is given; a field is an option."""

    spaces: list[str] = argument(
        "Vectors to compare: minilm, folders, names on the Hugging Face hub, folders of "
        "runs, or .txt files of `kept vectors train`.",
        callback=_spaces,
    )
    questions: Path = required(
        "File of analogies, in the form of word2vec or the .csv of MSR, plain or in .gz."
    )
    output: Path = required("Folder for the results.", "--output", "-o")
    seed: int = option(SEED, default=0, bounds=(0, MAX_SEED))
    force: bool = switch(FORCE_FILES)


@takes(AnalogiesOptions)
def analogies(options: AnalogiesOptions) -> None:
    """Test word vectors: answer analogies, and separate the pairs of a relation from other pairs.

    Printed are accuracies of 3CosAdd and 3CosMul, with the word nearest to c as the baseline, and
    the average precision of a linear rule on differences of vectors, for each space and for random
    vectors.

    Example: kept check analogies minilm vectors/words.txt --questions questions-words.txt -o words/
    """
    from kept.apps.cli.terminal import echo
    from kept.lab.probing.words.analogies import (
        answer_analogies,
        as_json,
        induce_relations,
        learning,
        words_of,
    )
    from kept.lab.probing.words.questions import read_analogies
    from kept.lab.probing.words.spaces import open_space, random_space
    from kept.lab.probing.words.tables import RANDOM, shortfalls, to_markdown
    from kg_loaders.disk.writing import refuse_file, write_json, write_text

    learning()
    for name in (PAGE, VALUES):
        refuse_file(options.output / name, force=options.force)
    items = read_analogies(options.questions)
    words = words_of(items)
    opened = {name: open_space(name, words) for name in dict.fromkeys(options.spaces)}
    opened[RANDOM] = random_space(opened[options.spaces[0]], options.seed)
    rows = {
        name: (
            answer_analogies(space, words, items, seed=options.seed),
            induce_relations(space, words, items, seed=options.seed),
        )
        for name, space in opened.items()
    }
    options.output.mkdir(parents=True, exist_ok=True)
    command = (
        f"kept check analogies {' '.join(options.spaces)} --questions {options.questions.name} "
        f"--seed {options.seed} -o {options.output.name}"
    )
    page = to_markdown(rows, command)
    write_text(options.output / PAGE, page, force=options.force)
    spaces = {n: {"analogies": as_json(a), "induction": as_json(i)} for n, (a, i) in rows.items()}
    values = {"command": command, "spaces": spaces}
    write_json(options.output / VALUES, values, indent=2, force=options.force)
    echo(page, nl=False)
    for line in shortfalls(rows):
        echo(f"warning: {line}")
