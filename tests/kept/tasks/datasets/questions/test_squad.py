"""SQuAD's files: what is read of them, and what is refused with a remedy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kept.tasks.datasets.formats import FORMATS, TaskExample, hold_out, read_examples
from kept.tasks.datasets.questions.squad import read_squad2
from kg_loaders.budget import ReaderBudget
from kg_loaders.damage import DamagePolicy, DamageReport
from kg_loaders.errors import BudgetError, DamageError

CONTEXT = "Die 🗼 steht in 巴黎, près de la Seine (e\u0301)."


def question(id: str = "q", answer: str = "巴黎", at: int | None = None, **more: Any) -> Any:
    start = CONTEXT.index(answer) if at is None else at
    answers = [{"text": answer, "answer_start": start}]
    return {"id": id, "question": "Where?", "answers": answers, **more}


def write(path: Path, *questions: Any, context: str = CONTEXT) -> Path:
    paragraph = {"context": context, "qas": list(questions)}
    path.write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}), encoding="utf-8")
    return path


def answer_of(example: TaskExample) -> str:
    (target,) = example.targets
    return example.linked.text[target.start : target.end]


def test_questions_about_one_context_are_one_group(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x.json", question("a"), question("b", "e\u0301"), question("c", " in ")
    )
    examples = read_examples(path, "squad")
    assert [e.linked.id for e in examples] == ["a", "b", "c"]
    assert [answer_of(e) for e in examples] == ["巴黎", "e\u0301", "in"]
    assert [e.labels for e in examples] == [("巴黎",), ("e\u0301",), (" in ",)]
    assert {e.group for e in examples} == {CONTEXT}
    assert len(hold_out(examples, 0.5, 0, "dev")[1]) == 3


def test_what_no_text_answers(tmp_path: Path) -> None:
    nothing = {"id": "n", "question": "Who?", "answers": [], "is_impossible": True}
    path = write(tmp_path / "x.json", question("a", is_impossible=False), nothing)
    known, unknown = read_examples(path, "squad2")
    assert (known.labels, unknown.labels, unknown.targets) == (("巴黎",), ("",), ())
    with pytest.raises(DamageError, match=r"x\.json.*'n' is impossible.*--format squad2"):
        read_examples(path, "squad")


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (question(at=3), r"'巴黎' is not at answer_start 3, but '.*'; count in characters"),
        (question(at=-2), "answer_start -2"),
        (question(at=10**9), "answer_start 1000000000"),
        (question(answer=" "), "an answer without text; leave it out"),
        (question(is_impossible=True), "'q' has 1 answers and is impossible"),
        ({"id": "q", "question": "Who?"}, "'q' has 0 answers and is not impossible"),
        ({"id": "q", "question": " "}, "an empty question or context"),
        ({"id": [], "question": "Who?"}, "got `array`"),
        ({"question": "Who?"}, "missing required field `id`"),
    ],
)
def test_faulty_questions_are_told_by_file_and_place(tmp_path: Path, row: Any, fault: str) -> None:
    path = write(tmp_path / "x.json", question("fine"), row)
    report = DamageReport(policy=DamagePolicy.SKIP)
    assert [e.linked.id for e in read_squad2(path, report)] == ["fine"]
    assert (report.n_lines, report.n_texts) == (2, 1)
    with pytest.raises(DamageError, match=rf"x\.json, line 2 .*{fault}"):
        list(read_squad2(path, DamageReport()))


def test_a_file_costs_what_its_budget_allows(tmp_path: Path) -> None:
    path = write(tmp_path / "x.json", question())
    with pytest.raises(BudgetError, match="document_bytes"):
        list(read_squad2(path, DamageReport(budget=ReaderBudget(document_bytes=20))))


@given(
    before=st.text(st.characters(codec="utf-8"), max_size=9),
    answer=st.text(st.characters(codec="utf-8"), min_size=1, max_size=9).filter(str.strip),
    after=st.text(st.characters(codec="utf-8"), max_size=9),
)
def test_offsets_are_characters_of_any_script(
    tmp_path_factory: pytest.TempPathFactory, before: str, answer: str, after: str
) -> None:
    path = tmp_path_factory.mktemp("squad") / "x.json"
    row = {**question("q"), "answers": [{"text": answer, "answer_start": len(before)}]}
    (example,) = read_examples(write(path, row, context=before + answer + after), "squad")
    assert answer_of(example) == answer.strip()
    start = example.linked.pair_start
    assert example.linked.text[start:] == before + answer + after


@pytest.mark.data
@pytest.mark.parametrize(
    ("file", "name", "n", "n_none"),
    [
        ("qa/xquad/xquad.en.json.gz", "squad", 1190, 0),
        ("qa/xquad/xquad.zh.json.gz", "squad", 1190, 0),
        ("qa/squad2_part/dev-v2.0.part5.json.gz", "squad2", 1407, 702),
    ],
)
def test_real_files(data_root: Path, file: str, name: str, n: int, n_none: int) -> None:
    examples = list(FORMATS[name].read(data_root / file, DamageReport()))
    assert (len(examples), sum(e.labels == ("",) for e in examples)) == (n, n_none)
    for example in examples:
        if example.targets:
            assert answer_of(example) == example.labels[0].strip()
