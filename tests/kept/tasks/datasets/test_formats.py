"""Task files as examples: every format, splits by group, real files where they are."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from entity_linking.mentions import LinkedText, Mention
from kept.errors import ConfigError
from kept.tasks.datasets.formats import (
    FORMATS,
    TASKS,
    TaskExample,
    hold_out,
    read_conll,
    read_examples,
    read_tsv,
    some_of,
)
from kg_loaders.damage import DamagePolicy, DamageReport
from kg_loaders.errors import DamageError

ARGUMENT = {"pos": [0, 1], "id": "Q90"}
ROW = {"token": ["Paris", "in", "France"], "h": ARGUMENT, "t": {"pos": [2, 3], "id": "Q142"}}
FACT = {
    "uuid": "u", "sub_uri": "Q90", "obj_uri": "Q142", "predicate_id": "P17",
    "evidences": [
        {"sub_surface": "Paris", "obj_surface": "France", "masked_sentence": "Paris in [MASK]"}
    ],
}  # fmt: skip
FEWREL = {
    "tokens": ["Paris", "in", "France"],
    "h": ["paris", "Q90", [[0]]],
    "t": ["france", "Q142", [[2]]],
}
TAGME = {"sent": "In Paris", "start": 3, "end": 8, "labels": ["place"], "ents": [["Q90", 3, 8, 1]]}
SEMEVAL = {key: ROW[key] for key in ("token",)} | {
    "h": {"name": "paris", "pos": [0, 1]}, "t": {"name": "france", "pos": [2, 3]},
    "relation": "Component-Whole(e1,e2)",
}  # fmt: skip
TACRED = {
    "id": "7", "docid": "x", "relation": "org:parents", "token": ["Paris", "-LRB-", "France"],
    "subj_start": 0, "subj_end": 0, "obj_start": 2, "obj_end": 2, "subj_type": "CITY",
    "obj_type": "COUNTRY", "stanford_ner": ["O", "O", "O"],
}  # fmt: skip
DOCRED = {
    "title": "Paris", "sents": [["Paris", "in", "France"]],
    "vertexSet": [
        [{"name": "Paris", "sent_id": 0, "pos": [0, 1], "type": "LOC"}],
        [{"name": "France", "sent_id": 0, "pos": [2, 3], "type": "LOC"}],
    ],
    "labels": [{"r": "P17", "h": 0, "t": 1, "evidence": [0]}],
}  # fmt: skip
ULTRAFINE = {
    "annot_id": "a", "left_context_token": ["In"], "mention_span": "Paris", "y_str": ["place"],
    "right_context_token": ["."],
}  # fmt: skip
ATLAS = {
    "text": "Paris is in France", "mentions": [[0, 5, "Q90"], [12, 18, "Q142"]],
    "facts": [["Q90", "P17", "Q142"]],
}  # fmt: skip
QUESTION = {"id": "q1", "question": "Where?", "answers": [{"text": "Paris", "answer_start": 3}]}
SQUAD = {"data": [{"paragraphs": [{"context": "In Paris", "qas": [QUESTION]}]}]}
COPA = {
    "premise": "It rained.",
    "choice1": "Wet.",
    "choice2": "Dry.",
    "question": "effect",
    "label": 0,
}
LETTERED = {"question": "Where?", "options": "\nA. Wet.\nB. Dry.", "answer": "A. Wet."}
COMMONSENSE = {
    "id": "q1",
    "answerKey": "A",
    "question": {
        "stem": "Where?",
        "choices": [{"label": "A", "text": "Wet."}, {"label": "B", "text": "Dry."}],
    },
}
SAMPLES = {
    "table": "label,text\n1,good\n0,bad\n",
    "atlas": json.dumps(ATLAS),
    "trex": json.dumps(FACT),
    "fewrel": json.dumps({"P17": [FEWREL]}),
    "wiki80": json.dumps(ROW | {"relation": "country"}),
    "semeval": json.dumps(SEMEVAL),
    "tacred": json.dumps([TACRED]),
    "docred": json.dumps([DOCRED]),
    "tagme": json.dumps([TAGME]),
    "ultrafine": json.dumps(ULTRAFINE),
    "tsv": "label\ttext_a\n1\tgood\n0\tbad\n",
    "cola": "gj04\t1\t\tgood\ncj99\t0\t*\tbad\n",
    "wic": "\n".join(
        json.dumps({"text": f"Word: be. Sentence 1: {w} Sentence 2: {w}", "label": n})
        for n, w in ((1, "It is."), (0, "I was."))
    ),
    "scores": "score\ttext_a\ttext_b\n3.8\tIt is.\tIt is.\n-1\tIt is.\tI was.\n",
    "stsb": "g\tf\t2012\t1\t3.8\tIt is.\tIt is.\ng\tf\t2012\t2\t-1\tIt is.\tI was.\tsource\n",
    "conll": "Paris\tB-place\nis\tO\n\nnear\tO\n",
    "squad": json.dumps(SQUAD),
    "squad2": json.dumps(SQUAD),
    "copa": json.dumps(COPA),
    "lettered": json.dumps(LETTERED),
    "commonsenseqa": json.dumps(COMMONSENSE),
}


def test_every_format_and_task_is_here() -> None:
    assert list(SAMPLES) == list(FORMATS)
    assert {task for line in FORMATS.values() for task in line.tasks} == set(TASKS)


@pytest.mark.parametrize("name", FORMATS)
def test_reads(name: str, tmp_path: Path) -> None:
    path = tmp_path / "file.gz"
    path.write_bytes(gzip.compress(SAMPLES[name].encode()))
    examples = read_examples(path, name)
    for example in examples:
        for target in example.targets:
            assert example.linked.text[target.start : target.end].strip()
    task = FORMATS[name].task
    if task in ("relation", "document_relations"):
        example = examples[0]
        surfaces = [example.linked.text[t.start : t.end] for t in example.targets]
        assert surfaces == ["Paris", "France"]
        has_ids = name in ("atlas", "trex", "fewrel", "wiki80")
        assert example.pair == (("Q90", "Q142") if has_ids else None)
        labels = {"wiki80": "country", "semeval": "Component-Whole(e1,e2)", "tacred": "org:parents"}
        assert example.labels == (labels.get(name, "P17"),)
        assert bool(example.linked.links) == has_ids
    elif task == "typing":
        (example,) = examples
        assert (example.labels, example.targets) == (("place",), (Mention(3, 8),))
        assert [link.entity for link in example.linked.links] == ["Q90"] * (name == "tagme")
    elif task.startswith("span"):
        (example,) = examples
        assert (example.linked.id, example.linked.text) == ("q1", "Where? In Paris")
        assert (example.labels, example.targets) == (("Paris",), (Mention(10, 15),))
        assert example.group == "In Paris"
    elif task == "multiple_choice":
        (example,) = examples
        text = example.linked.text
        assert [text[t.start : t.end] for t in example.targets] == ["Wet.", "Dry."]
        assert example.labels == ("1",)
        assert example.group == text.removesuffix(" Wet. | Dry.")
    elif name == "wic":
        assert [e.labels for e in examples] == [("1",), ("0",)]
        assert examples[0].linked.text == "It is. It is."
        assert examples[0].targets == (Mention(3, 5), Mention(10, 12))
    elif task == "regression":
        assert [e.labels for e in examples] == [("3.8",), ("-1",)]
        assert [e.linked.text for e in examples] == ["It is. It is.", "It is. I was."]
        assert {e.linked.pair_start for e in examples} == {7}
    elif task == "classification":
        assert [(e.linked.text, *e.labels) for e in examples] == [("good", "1"), ("bad", "0")]
    else:
        assert [e.labels for e in examples] == [("B-place", "O"), ("O",)]
        assert examples[0].linked.text == "Paris is"
        assert [e.linked.id for e in examples] == ["1", "4"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sentence\tlabel\nfine \t1\n", [("fine", "1")]),
        ("1\tfine\n\n0\tbad\r\n", [("fine", "1"), ("bad", "0")]),
        ("label\tx\ttext_b\ttext\na\tb\tc\td\n", [("d c", "a")]),
        ("label\tx\ttext\na\tb\tc\n", [("c", "a")]),
    ],
)
def test_tsv_columns(text: str, expected: list[tuple[str, str]], tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text(text, encoding="utf-8")
    report = DamageReport()
    examples = list(read_tsv(path, report))
    assert [(e.linked.text, *e.labels) for e in examples] == expected
    assert (examples[0].linked.pair_start is None) == ("text_b" not in text)
    report.check()


def test_faulty_lines_have_their_place(tmp_path: Path) -> None:
    for name, text, message in (
        ("tsv", "label\ttext\n1\n", r"line 2 \(byte 11\): 1 column\(s\), 2 are needed"),
        ("tsv", "label\ttext\n\tx\n", "an empty label or text"),
        ("scores", "label\ttext\n1\ta\nhigh\tb\n", r"line 3 .* the score 'high' is not a finite"),
        ("scores", "nan\tx\n", "the score 'nan' is not a finite number"),
        ("stsb", "g\tf\ty\t1\tinf\ta\tb\n", "the score 'inf' is not a finite number"),
        ("stsb", "g\tf\ty\t1\t2\ta\n", "not genre, file, year, number, score, two sentences"),
        ("conll", "Paris\n", "a word without a tag"),
    ):
        path = tmp_path / "x.tsv"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(DamageError, match=message):
            read_examples(path, name)
    report = DamageReport(policy=DamagePolicy.SKIP)
    assert [len(e.labels) for e in read_conll(path, report)] == []
    path.write_text("a O\nb\nc B-x\n\n\n", encoding="utf-8")
    report = DamageReport(policy=DamagePolicy.SKIP)
    assert [e.labels for e in read_conll(path, report)] == [("O", "B-x")]
    report.check()
    path.write_text("label\ttext\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="holds no example in the format tsv"):
        read_examples(path, "tsv")


def example(pair: tuple[str, str] | None, text: str) -> TaskExample:
    return TaskExample(LinkedText(text, ()), ("x",), (), pair)


def test_groups_are_held_out_whole() -> None:
    examples = [example((f"Q{i % 7}", "Q9"), str(i)) for i in range(40)]
    examples += [
        example(("Q9", "Q3"), "reversed"),
        example(None, "no pair"),
        example(None, "no pair"),
    ]
    rest, held = hold_out(examples, 0.3, 5, "dev")
    assert Counter(map(id, (*rest, *held))) == Counter(map(id, examples))
    assert not {e.group for e in rest} & {e.group for e in held}
    assert 0.3 * len(examples) <= len(held) < 0.5 * len(examples)
    assert hold_out(examples, 0.3, 5, "dev") == (rest, held)
    assert hold_out(examples, 0.3, 5, "test")[1] != held
    assert example(("a", "b"), "1").group == example(("b", "a"), "2").group


def test_some_of() -> None:
    examples = [example(None, str(i)) for i in range(9)]
    few = some_of(examples, 4, 1)
    assert len(few) == 4
    assert [examples.index(e) for e in few] == sorted(examples.index(e) for e in few)
    assert some_of(examples, None, 1) == some_of(examples, 9, 1) == examples


COLA = "linguistic/cola/cola_public.zip/cola_public/raw"


@pytest.mark.data
def test_real_files(data_root: Path) -> None:
    """Counts of the data's own description."""
    for name, path, n in (
        ("wiki80", "re/wiki80/train_0.01.txt.gz", 400),
        ("conll", "typing/wnut17/wnut17train.conll.gz", 3394),
        ("conll", "typing/wnut17/emerging.dev.conll", 1009),
        ("tagme", "typing/open_entity_wiki/ernie_9types/dev.json.gz", 674),
        ("tsv", "linguistic/sst2/test.tsv", 872),
        ("tsv", "kbert_zh/chnsenticorp/dev.tsv.gz", 1200),
        ("semeval", "re/semeval2010_task8/train.txt.gz", 6507),
        ("semeval", "re/semeval2010_task8/test.txt.gz", 2717),
        ("ultrafine", "typing/open_entity_wiki/ultrafine/test.json.gz", 710),
        ("cola", f"{COLA}/in_domain_train.tsv", 8551),
        ("cola", f"{COLA}/in_domain_dev.tsv", 527),
        ("cola", f"{COLA}/out_of_domain_dev.tsv", 516),
        ("conll", "typing/wnut17/emerging.test.annotated.gz", 1287),
        ("stsb", "glue/stsb/sts-train.csv.gz", 5749),
        ("stsb", "glue/stsb/sts-dev.csv.gz", 1500),
        ("stsb", "glue/stsb/sts-test.csv.gz", 1379),
    ):
        assert len(read_examples(data_root / path, name)) == n, path
    tagged = read_examples(data_root / "typing/wnut17/emerging.dev.conll", "conll")
    assert sum(len(e.labels) for e in tagged) == 15733
