"""`kept check analogies`: whether places of words hold relations.

The work is in `kept.lab.probing.words`, imported when the command runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kept.apps.cli.options import local_or_hub
from kept.bounds import MAX_SEED
from kept.help_texts import FORCE_FILES, SEED

PAGE, VALUES = "analogies.md", "analogies.json"


def _spaces(names: list[str]) -> list[str]:
    for name in names:
        if not name.endswith(".txt"):
            local_or_hub(name)
    return names


def analogies(
    spaces: Annotated[
        list[str],
        typer.Argument(
            callback=_spaces,
            help="Vectors to compare: minilm, folders, names on the Hugging Face hub, folders of "
            "runs, or .txt files of `kept vectors train`.",
        ),
    ],
    questions: Annotated[
        Path,
        typer.Option(
            help="File of analogies, in the form of word2vec or the .csv of MSR, plain or in .gz."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the results.")],
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help=SEED)] = 0,
    force: Annotated[bool, typer.Option("--force", help=FORCE_FILES)] = False,
) -> None:
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
        refuse_file(output / name, force=force)
    items = read_analogies(questions)
    words = words_of(items)
    opened = {name: open_space(name, words) for name in dict.fromkeys(spaces)}
    opened[RANDOM] = random_space(opened[spaces[0]], seed)
    rows = {
        name: (
            answer_analogies(space, words, items, seed=seed),
            induce_relations(space, words, items, seed=seed),
        )
        for name, space in opened.items()
    }
    output.mkdir(parents=True, exist_ok=True)
    command = (
        f"kept check analogies {' '.join(spaces)} --questions {questions.name} --seed {seed} "
        f"-o {output.name}"
    )
    page = to_markdown(rows, command)
    write_text(output / PAGE, page, force=force)
    values = {name: {"analogies": as_json(a), "induction": as_json(i)}
              for name, (a, i) in rows.items()}  # fmt: skip
    write_json(output / VALUES, {"command": command, "spaces": values}, indent=2, force=force)
    echo(page, nl=False)
    for line in shortfalls(rows):
        echo(f"warning: {line}")
