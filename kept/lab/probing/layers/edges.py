"""Questions about words and their heads in treebanks, one label each (edge probing).

Tenney et al. 2019, "What do you learn from context?" (ICLR), section 2: labels of a word, or of two
words together. Hewitt and Liang 2019, "Designing and Interpreting Probes with Control Tasks"
(EMNLP), section 2.1: labels that belong to the word's form alone, drawn at random.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kept.randomness import generator
from kept.suggestions import no_such
from kept.tasks.datasets.conllu import Sentence

FARTHEST = 5
N_CONTROL = 17
"""Labels of the control: as many as UD has parts of speech."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A word of sentence number `sentence`, perhaps its head (numbers from 0), and their label."""

    sentence: int
    word: int
    head: int | None
    form: str
    label: str


Labeller = Callable[[Sentence, int], "tuple[int | None, str] | None"]


def _part_of_speech(sentence: Sentence, at: int) -> tuple[int | None, str]:
    return None, sentence.words[at].tag


def _relation(sentence: Sentence, at: int) -> tuple[int | None, str] | None:
    word = sentence.words[at]
    return (word.head - 1, word.relation) if word.head else None


def _distance(sentence: Sentence, at: int) -> tuple[int | None, str] | None:
    head = sentence.words[at].head
    if not head:
        return None
    return None, f"{max(-FARTHEST, min(FARTHEST, head - 1 - at)):+d}"


def _control(sentence: Sentence, at: int) -> tuple[int | None, str]:
    form = sentence.words[at].form.lower()
    return None, str(generator(0, "control task", form).integers(N_CONTROL))


TASKS: dict[str, Labeller] = {
    "pos": _part_of_speech,
    "relation": _relation,
    "distance": _distance,
    "control": _control,
}
"""`pos`: a word's part of speech. `relation`: the dependency between a word and its head, both
given. `distance`: how many words to the right its head stands (to the left: negative), cut at
`FARTHEST`, the word given. `control`: a random label of the word's form."""


def require_task(task: str) -> Labeller:
    """The labels of a task; raises `ConfigError` for an unknown one."""
    if task not in TASKS:
        raise no_such("task of layers", task, TASKS)
    return TASKS[task]


def edges_of(task: str, sentences: Sequence[Sentence], most: int, *, seed: int) -> list[Edge]:
    """At most `most` questions, from sentences in random order, each taken whole.

    Raises `ConfigError` for an unknown task.
    """
    label, edges = require_task(task), list[Edge]()
    for number in generator(seed, "sentences of a probe").permutation(len(sentences)).tolist():
        for at, word in enumerate(sentences[number].words):
            if (labelled := label(sentences[number], at)) is not None:
                edges.append(Edge(number, at, labelled[0], word.form.lower(), labelled[1]))
        if len(edges) >= most:
            break
    return edges[:most]


def renumbered(edges: Sequence[Edge]) -> tuple[list[int], list[Edge]]:
    """The questions' sentences, each once, and the questions by their sentence's place there."""
    numbers = list(dict.fromkeys(edge.sentence for edge in edges))
    new_number = {number: i for i, number in enumerate(numbers)}
    return numbers, [
        dataclasses.replace(edge, sentence=new_number[edge.sentence]) for edge in edges
    ]
