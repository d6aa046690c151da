"""Official scores by hand and by second implementations, their intervals, and where they stand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import f1_score, matthews_corrcoef

from entity_linking.mentions import LinkedText
from kept.errors import EvaluationError
from kept.evaluation.classification import loose_scores
from kept.randomness import generator
from kept.tasks.datasets.example import Document, DocumentPair, TaskExample
from kept.tasks.datasets.formats import FORMATS
from kept.tasks.kinds import MULTI, SINGLE
from kept.tasks.scores.official_scores import OFFICIAL, official_score
from kept.tasks.scores.scores import scores

Labels = list[tuple[str, ...]]


def examples_of(labels: Labels) -> list[TaskExample]:
    return [TaskExample(LinkedText(f"text {i}", ()), label) for i, label in enumerate(labels)]


def score(format: str, predicted: Labels, gold: list[TaskExample], train: Any = ()) -> Any:
    official = official_score(format, predicted, gold, train, generator(0, "t"))
    assert official is not None
    if official["low"] is not None:
        assert official["low"] <= official["estimate"] <= official["high"]
    return official


def single(names: Any) -> Labels:
    return [(str(name),) for name in names]


def test_every_official_score_belongs_to_a_format() -> None:
    assert set(OFFICIAL) <= set(FORMATS)
    draws = generator(0, "t")
    assert official_score("tsv", single("ab"), examples_of(single("ab")), (), draws) is None
    plain = {"problem_type": SINGLE, "no_relation": None, "generator": draws}
    assert "official" not in scores(single("1"), examples_of(single("1")), **plain)  # type: ignore[arg-type]
    metrics = scores(single("10"), examples_of(single("11")), **plain, format="cola")  # type: ignore[arg-type]
    assert metrics["official"]["name"] == "Matthews correlation"


def test_semeval_by_hand() -> None:
    """A wrong direction spoils precision and recall; Other counts only as what others lose."""
    gold = ["A-B(e1,e2)", "A-B(e1,e2)", "A-B(e2,e1)", "C-D(e1,e2)", "Other", "Other"]
    ours = ["A-B(e1,e2)", "A-B(e2,e1)", "Other", "C-D(e1,e2)", "C-D(e2,e1)", "E-F(e1,e2)"]
    official = score("semeval", single(ours), examples_of(single(gold)))
    # A-B: 1 right of 2 found, of 3 to find; C-D: 1 right of 2 found, of 1 to find
    assert official["estimate"] == pytest.approx((0.4 + 2 / 3) / 2)
    assert official["beside"]["precision"] == pytest.approx(0.5)
    assert official["beside"]["recall"] == pytest.approx((1 / 3 + 1) / 2)
    assert official["n"] == 6
    with_underscore = score("semeval", single(["_Other", *ours[1:]]), examples_of(single(gold)))
    assert with_underscore["estimate"] < official["estimate"]


def test_semeval_is_the_published_scorer_s_arithmetic() -> None:
    """The scorer's own way: a matrix of relations, and wrong directions in a column apart."""
    draws = np.random.default_rng(1)
    names = [f"{r}-X({d})" for r in "ABCDEFGHI" for d in ("e1,e2", "e2,e1")] + ["Other"]
    gold = [names[i] for i in draws.integers(19, size=400)]
    ours = [g if draws.random() < 0.5 else names[draws.integers(19)] for g in gold]
    ours = [o.translate(str.maketrans("12", "21")) if draws.random() < 0.2 else o for o in ours]
    columns: dict[str, int] = {}
    wrong: dict[str, int] = {}
    right: dict[str, int] = {}
    rows: dict[str, int] = {}
    for o, g in zip(ours, gold, strict=True):
        mine, theirs = o[:3], g[:3]
        rows[theirs] = rows.get(theirs, 0) + 1
        if mine == theirs and o != g:
            wrong[mine] = wrong.get(mine, 0) + 1
        else:
            columns[mine] = columns.get(mine, 0) + 1
            right[mine] = right.get(mine, 0) + (o == g)
    f1s = []
    for relation in (r for r in rows if r != "Oth"):
        p = right[relation] / (columns[relation] + wrong[relation])
        r = right[relation] / rows[relation]
        f1s.append(2 * p * r / (p + r))
    assert len(f1s) == 9
    official = score("semeval", single(ours), examples_of(single(gold)))
    assert official["estimate"] == pytest.approx(sum(f1s) / 9)


def test_tacred_agrees_with_scikit_learn() -> None:
    draws = np.random.default_rng(0)
    names = np.array(["no_relation", "a", "b", "c"])
    gold, ours = names[draws.integers(4, size=80)], names[draws.integers(4, size=80)]
    official = score("tacred", single(ours), examples_of(single(gold)))
    assert official["estimate"] == pytest.approx(
        f1_score(gold, ours, labels=["a", "b", "c"], average="micro")
    )
    nothing = score(
        "tacred", single(["no_relation"] * 2), examples_of(single(["a", "no_relation"]))
    )
    assert nothing["estimate"] == 0


def of_document(title: str, facts: Any, pairs: Any, names: Any) -> list[TaskExample]:
    document = Document(title, names, facts)
    return [
        TaskExample(
            LinkedText(f"{title} {head} {tail}", ()),
            tuple(r for h, r, t in facts if (h, t) == (head, tail)),
            document_pair=DocumentPair(document, head, tail),
        )
        for head, tail in pairs
    ]


def test_docred_counts_what_was_not_asked_and_what_was_seen() -> None:
    train = of_document("T", ((0, "r", 1),), ((0, 1),), (("Paris",), ("France", "FR")))
    one = of_document(
        "A", ((0, "r", 1), (0, "s", 1), (0, "r", 2)), ((0, 1), (1, 0)),
        (("City of Light", "Paris"), ("FR",), ("Far",)),
    )  # fmt: skip
    two = of_document("B", ((0, "r", 1), (1, "r", 0)), ((0, 1),), (("Bonn",), ("Germany",)))
    predicted: Labels = [("r", "s"), ("s",), ("r",)]
    official = score("docred", predicted, [*one, *two], train)
    precision, recall = 3 / 4, 3 / 5  # (0, r, 2) of A and (1, r, 0) of B were not asked
    assert official["estimate"] == pytest.approx(2 * precision * recall / (precision + recall))
    assert (official["beside"]["precision"], official["beside"]["recall"]) == (precision, recall)
    unseen = (3 - 1) / (4 - 1)  # Paris r FR stands in training
    assert official["beside"]["Ign F1"] == pytest.approx(2 * unseen * recall / (unseen + recall))
    assert official["n"] == 2
    assert score("docred", predicted, [*one, *two])["beside"]["Ign F1"] == official["estimate"]
    with pytest.raises(EvaluationError, match="'text 0' is of no document"):
        score("docred", [("r",)], examples_of([("r",)]))


def test_ultrafine_agrees_with_the_loose_scores() -> None:
    draws = np.random.default_rng(2)
    gold, ours = draws.random((40, 7)) < 0.3, draws.random((40, 7)) < 0.25
    named = [[tuple(str(i) for i in np.flatnonzero(row)) for row in side] for side in (ours, gold)]
    assert any(not labels for labels in named[0])
    official = score("ultrafine", named[0], examples_of(named[1]))
    expected = loose_scores(np.where(ours, 1.0, -1.0), gold, threshold=0, macro_over="asked")
    assert official["estimate"] == pytest.approx(expected.macro.f1)
    other_scores = official["beside"]
    assert other_scores["precision"] == pytest.approx(expected.macro.precision)
    assert other_scores["recall"] == pytest.approx(expected.macro.recall)
    assert other_scores["micro f1"] == pytest.approx(expected.micro.f1)
    assert other_scores["strict"] == pytest.approx(expected.exact)
    everything = {"problem_type": MULTI, "no_relation": None, "generator": generator(0, "t")}
    whole = scores(named[0], examples_of(named[1]), **everything, format="ultrafine")  # type: ignore[arg-type]
    assert whole["official"]["estimate"] == official["estimate"]


def test_cola_and_wic() -> None:
    draws = np.random.default_rng(3)
    gold, ours = draws.integers(2, size=60), draws.integers(2, size=60)
    official = score("cola", single(ours), examples_of(single(gold)))
    assert official["estimate"] == pytest.approx(matthews_corrcoef(gold, ours))
    assert official["beside"]["accuracy"] == pytest.approx((gold == ours).mean())
    assert score("cola", single([1] * 4), examples_of(single([1, 0, 1, 0])))["estimate"] == 0
    wic = score("wic", single(ours), examples_of(single(gold)))
    assert wic["estimate"] == pytest.approx((gold == ours).mean())
    half = 1.96 * math.sqrt(0.25 / 60)
    assert wic["high"] - wic["low"] == pytest.approx(2 * half, rel=0.15)


def test_one_group_has_no_interval() -> None:
    official = score("wic", single("1"), examples_of(single("1")))
    assert (official["estimate"], official["low"], official["high"], official["n"]) == (
        1.0,
        None,
        None,
        1,
    )


CUT = [("semeval", "A-B(e1,e2)"), ("tacred", "a"), ("cola", "1"), ("cola", "0"), ("wic", "1")]


@pytest.mark.parametrize(("format", "label"), CUT)
def test_what_is_cut_off_is_wrong(format: str, label: str) -> None:
    """397 of 400 cut off, 3 right: the score is not that of the three."""
    others = {"cola": {"1": "0", "0": "1"}[label] if format == "cola" else ""}
    read = single([label, others.get(format) or label, label])
    cut_off = [(example, ()) for example in examples_of(single([label] * 397))]
    draws = generator(0, "t")
    with_cuts = official_score(format, read, examples_of(read), (), draws, cut_off=cut_off)
    alone = score(format, read, examples_of(read))
    assert with_cuts is not None
    assert alone["estimate"] == 1.0
    assert (alone["n_cut_off"], with_cuts["n_cut_off"], with_cuts["n"]) == (0, 397, 397)
    assert with_cuts["estimate"] < 0.02
    assert with_cuts["beside"]["without questions cut off with the text"] == 1.0
    right = [(example, (label,)) for example, _ in cut_off]  # an answer that needs no reading
    of_right_cuts = official_score(format, read, examples_of(read), (), draws, cut_off=right)
    assert of_right_cuts is not None
    assert of_right_cuts["estimate"] == 1.0


def test_what_is_cut_off_is_missed_in_scores_of_sets() -> None:
    typed = examples_of([("person", "artist"), ("place",)])
    official = official_score(
        "ultrafine", [("person", "artist")], typed[:1], (), generator(0, "t"),
        cut_off=[(typed[1], ())],
    )  # fmt: skip
    assert official is not None
    precision, recall = 1.0, 0.5
    assert official["estimate"] == pytest.approx(2 * precision * recall / (precision + recall))
    document = of_document(
        "A", ((0, "r", 1), (1, "s", 0)), ((0, 1), (1, 0)), (("Paris",), ("France",))
    )
    official = official_score(
        "docred", [("r",)], document[:1], (), generator(0, "t"), cut_off=[(document[1], ())]
    )
    assert official is not None
    assert (official["beside"]["precision"], official["beside"]["recall"]) == (1.0, 0.5)


@pytest.mark.parametrize("n", [1, 9, 12])
def test_relations_are_counted_and_not_taken_for_nine(n: int) -> None:
    names = [f"R{i}-X(e1,e2)" for i in range(n)] + ["Other"]
    official = score("semeval", single(names), examples_of(single(names)))
    assert official["name"] == f"macro F1 of {n} relations, directed, without Other"
    assert official["estimate"] == 1.0
