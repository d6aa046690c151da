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
from experiments.asking.trial import Question, atlas_questions, graphs_without
from kept.decoders.answering.answer import Answerer
from kept.decoders.answering.encoder import FastSentenceEncoder
from kg_loaders import KnowledgeGraph, atlas

WEIGHT_WITH = 2.0
"""Of a question with its fact: there are two without for each."""
THRESHOLDS = (0.3, 0.35, 0.4, 0.45, 0.5, 0.6)


def rows_of(graph: KnowledgeGraph, questions: list[Question]) -> NDArray[np.float64]:
    """Return `[row 5]`: the two pieces of evidence, the confidence with the weights in use, whether
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


def main() -> None:
    """Print the weights, and what thresholds would do on dev."""
    world = atlas.graph()
    questions = atlas_questions(world, "dev", 100, seed=1)
    rows = rows_of(world, questions)
    features, confidence = rows[:, :2], rows[:, 2]
    is_right, graph = rows[:, 3].astype(int), rows[:, 4]
    weights = np.where(graph == 0, WEIGHT_WITH, 1.0)
    fitted = LogisticRegression(C=100.0).fit(features, is_right, sample_weight=weights)
    print("bias", round(float(fitted.intercept_[0]), 2), "weights", fitted.coef_[0].round(2))
    for least in THRESHOLDS:
        right = ((confidence >= least) & (is_right == 1)).sum() / len(questions)
        refused = [
            1 - (confidence[graph == number] >= least).sum() / len(questions) for number in (1, 2)
        ]
        print(f"{least:.2f}: right {right:.2f}, refused {refused[0]:.2f}, {refused[1]:.2f}")


if __name__ == "__main__":
    main()
