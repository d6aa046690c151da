"""What counts as an answer, which values are compared, and shares of those that begin alike."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from kept.lab.questions.answering import candidates, is_right, judged
from kept.lab.questions.items import question_sets
from kept.lab.questions.prompts import Prompting
from kept.lab.questions.showing import ShownItem, absent, edited, items_under, other_entities
from kept.lab.questions.source import Source
from tests.kept.tiny_chat import chat_tokenizer


@pytest.mark.parametrize(
    ("written", "value", "right"),
    [
        (" golf.", "golf", True),
        (" a Baker, he", "baker", True),
        (" Chile<|im_end|>\n", "Chile", True),
        (" a game of golf", "golf", False),
        (" golf course", "golf", False),
        (" golfer.", "golf", False),
        (" Washington, D.C. and", "Washington, D.C.", False),
        (" Washington, D.C..", "Washington, D.C.", True),
        (" The Hague.", "The Hague", True),
        ("", "golf", False),
        (" .", "", False),
        (" 3.14", "3", False),
        (" 3.14 is pi", "3.14", False),
        (" 3.14.", "3.14", True),
        (" 3. He", "3", True),
        (" 3.", "3", True),
        (" 3, 4 and 5", "3", True),
        (" 1.5 million", "1", False),
        (" 1,000", "1", False),
        (" 1,000", "1,000", True),
        (" 12", "1", False),
        (" 2;3", "2", False),
        (" 1984. He", "1984", True),
        (" version 2. It", "version 2", True),
        (" U.S. Army", "U.S", False),
        (" U.S. Army", "U.S.", False),
        (" U.S. Army", "U", False),
        (" U.S.", "U.S", True),
        (" U.S., they", "U.S", True),
        (" the U.S.", "U.S.", True),
        (" John F. Kennedy", "John F", False),
        (" Dr. Who", "Dr", False),
        (" St. Gallen", "St", False),
        (" node.js", "node", False),
        (" example.com.", "example.com", True),
        (" e.g. this", "e.g", False),
        (" İzmir.", "izmir", True),
        (" izmir.", "İzmir", True),
        (" IZMIR", "İzmir", True),
        (" STRASSE.", "Straße", True),
        (" ΣΊΣΥΦΟΣ.", "Σίσυφος", True),
        (" Cafe\u0301.", "Café", True),
        (" Cafe\u0301.", "Cafe", False),
        (" 北京。", "北京", True),
        (" 北京市", "北京", False),
        (" -3", "3", False),
        (" 3%", "3", False),
        (" $3", "3", False),
        (" 3:30", "3", False),
        (" 3/4", "3", False),
        (" 1e5", "1", False),
        (" 3½", "3", False),
        (" 1\u202f000", "1", False),
        (" 1'000", "1", False),
        (" New York-based", "New York", False),
        (" New York’s mayor", "New York", False),
        (" AT&T", "AT", False),
        (" C++", "C", False),
        (" O'Neill", "O", False),
        (" x²", "x", False),
        (" 17th", "17", False),
        (" 1990s", "1990", False),
        (" 50km", "50", False),
        (" 5 p.m. sharp", "5 p.m.", False),
        (" 5 p.m.", "5 p.m.", True),
        (" 12. 5", "12", True),
        (" Ph.D. student", "Ph.D.", False),
        (" Mt. Everest", "Mt", False),
        (" Paris...", "Paris", True),
        (" Paris; London", "Paris", True),
        (" Paris or London", "Paris", False),
        (" not Paris", "Paris", False),
        (" 東京は", "東京", False),
        (" 1，000", "1", False),
        (" 3．14", "3", False),
        (" ٣،١٤", "٣", False),
        (" 北京、上海", "北京", True),
        (" 東京｡", "東京", True),
        (" दिल्ली। वह", "दिल्ली", True),
        (" القاهرة، مصر", "القاهرة", True),
        (" باريس؟", "باريس", True),
        (" Paris… and", "Paris", True),
    ],
)
def test_exactly_the_value(written: str, value: str, right: bool) -> None:
    assert is_right(written, value) is right


def test_values_that_begin_alike_share() -> None:
    questions = question_sets(Source(world="bearers", n_train=2, n_test=2), Path())[1]
    prompting = Prompting(chat_tokenizer([" new york new delhi rome sorry"]), "chatml", 8)
    each = ShownItem(0, questions.items[0], None, ("new york",))
    scores = torch.zeros(len(prompting.tokenizer))
    scores[prompting.pieces("new")[0]] = 1.0
    values = ["new delhi", "new york", "rome"]
    judgement = judged(prompting, each, values, " new york.<|im_end|>", scores)
    assert judgement.counts == {
        "exact": [1.0, 1.0, 1.0], "chosen": [0.5, 1.0, 1.0], "refused": [0.0, 1.0, 1.0]
    }  # fmt: skip
    assert judgement.chosen == "new delhi or new york"
    assert judgement.written == "new york."
    scores[prompting.pieces("rome")[0]] = 2.0
    wrong = judged(prompting, each, values, " that is unknown, sorry.", scores)
    assert [counts[0] for counts in wrong.counts.values()] == [0.0, 0.0, 1.0]


def test_candidates_are_values_of_the_relation() -> None:
    questions = question_sets(Source(world="bearers", n_train=2, n_test=30), Path())[1]
    each = items_under(questions, "true", 0).items[0]
    values = questions.values[questions.fact_of(each.item)[1]]
    also = next(value for value in values if value not in each.item.answers)
    proposed = candidates(questions, each, (also,), 4, 0)
    assert len(proposed) == 4
    assert proposed == sorted(proposed)
    assert {also, *each.item.answers} <= set(proposed) <= set(values)
    assert proposed == candidates(questions, each, (also,), 4, 0)


def test_conditions_change_what_they_name() -> None:
    questions = question_sets(Source(world="bearers", n_train=2, n_test=30), Path())[1]
    true = items_under(questions, "true", 0)
    assert [each.right for each in true.items] == [item.answers for item in questions.items]
    assert {each.entity for each in items_under(questions, "off", 0).items} == {None}
    moved = items_under(questions, "random-entity", 0)
    assert moved.graph is true.graph
    assert all(each.entity != each.item.entity for each in moved.items)
    others = other_entities(questions, 0)
    assert len(set(others.values())) == len(others) == 30
    shuffled = items_under(questions, "shuffled", 0)
    assert shuffled.graph.n_triples == true.graph.n_triples
    changed = edited(questions, 0)
    assert len(changed.items) == len(questions.items)
    for each in changed.items:
        assert not set(each.right) & set(each.item.answers)
    gone = absent(questions)
    assert gone.graph.n_triples == questions.graph.n_triples - len(questions.items)
    for each in gone.items:
        entity, relation = questions.fact_of(each.item)
        rest = gone.graph.outgoing(entity)
        assert relation not in rest[:, 1]
        assert len(rest) == len(questions.graph.outgoing(entity)) - sum(
            item.entity == each.item.entity for item in questions.items
        )
