"""The weights of an answer's confidence, fitted on the dev questions.

`python -m experiments.asking.calibrate` prints them, and, for the weights that are in use and some
thresholds, how many dev questions are answered rightly with the fact, refused without it, and
refused without its relation.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from entity_linking import DictionaryLinker
from experiments.asking.trial import Question, atlas_questions, graphs_without, questions
from experiments.asking.worlds import WORLDS, paraphrases
from kept.decoders.answering.answer import Answerer
from kept.decoders.answering.encoder import FastSentenceEncoder
from kg_loaders import KnowledgeGraph, atlas

WEIGHT_WITH = 2.0
"""Of a question with its fact: there are two without for each."""
SEED = 1
N_EVIDENCE = 4
THRESHOLDS = (0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6)


def rows_of(graph: KnowledgeGraph, questions: list[Question]) -> NDArray[np.float64]:
    """Return `[row 7]`: four pieces of evidence, the confidence with the weights in use, whether
    the answer is right, and which graph it is.

    Graphs are 0: whole, 1: without the fact, 2: without the relation. A wrong answer from the
    whole graph is no example of either class, and is left out.
    """
    encoder = FastSentenceEncoder()
    whole = Answerer(graph, DictionaryLinker(graph), encoder)
    rows = []
    for question in questions:
        for number, each in enumerate((graph, *graphs_without(graph, question).values())):
            answerer = Answerer(each, whole.linker, encoder)
            answerer.matcher.share_phrases(whole.matcher)
            best = answerer.best_reading(question.text)
            if best is None:
                continue
            values = answerer.answer(question.text, least=0.0).values
            is_right = number == 0 and sorted(values) == sorted(question.values)
            if number or is_right:
                rows.append([*best.evidence, best.confidence, is_right, number])
    return np.array(rows, np.float64)


def dev_questions() -> dict[str, list[tuple[KnowledgeGraph, list[Question]]]]:
    """Return the dev questions of the atlas, and those in other words, with their graphs."""
    world = atlas.graph()
    other_words = []
    for name, templates in paraphrases("dev").items():
        graph = WORLDS[name].graph(SEED)
        other_words.append((graph, questions(graph, templates, len(templates), SEED)))
    return {
        "atlas": [(world, atlas_questions(world, "dev", 100, seed=SEED))],
        "other words": other_words,
    }


def main() -> None:
    """Print the weights, and what thresholds would do on dev."""
    sets, n_questions = {}, {}
    for name, parts in dev_questions().items():
        sets[name] = np.concatenate([rows_of(graph, each) for graph, each in parts])
        n_questions[name] = sum(len(each) for _, each in parts)
    everything = np.concatenate(list(sets.values()))
    weights = np.where(everything[:, -1] == 0, WEIGHT_WITH, 1.0)
    fitted = LogisticRegression(C=10.0, max_iter=1000).fit(
        everything[:, :N_EVIDENCE], everything[:, -2].astype(int), sample_weight=weights
    )
    print("bias", round(float(fitted.intercept_[0]), 2), "weights", fitted.coef_[0].round(2))
    for name, rows in sets.items():
        for kind, confidence in (
            ("in use", rows[:, N_EVIDENCE]),
            ("fitted", fitted.predict_proba(rows[:, :N_EVIDENCE])[:, 1]),
        ):
            print_thresholds(f"{name}, {kind}", confidence, rows, n_questions[name])


def print_thresholds(
    name: str, confidence: NDArray[np.float64], rows: NDArray[np.float64], n: int
) -> None:
    """Print the shares of `n` questions that some thresholds answer and refuse rightly."""
    is_right, graph = rows[:, -2] == 1, rows[:, -1]
    for least in THRESHOLDS:
        right = ((confidence >= least) & is_right).sum() / n
        refused = [1 - (confidence[graph == number] >= least).sum() / n for number in (1, 2)]
        print(f"{name}, {least:.2f}: right {right:.2f}, refused {refused[0]:.2f}, {refused[1]:.2f}")


if __name__ == "__main__":
    main()
