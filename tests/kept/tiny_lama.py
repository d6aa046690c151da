"""A miniature of LAMA's folder: every file that a reader knows, about the ten-entity world."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

FACTS = {
    "P17": [
        ("Q90", "Paris", "Q142", "France"), ("Q64", "Berlin", "Q183", "Germany"),
        ("Q2", "Bonn", "Q183", "Germany"), ("Q1471", "Seine", "Q142", "France"),
    ],
    "P37": [("Q142", "France", "Q150", "French"), ("Q183", "Germany", "Q188", "German")],
}  # fmt: skip
TEMPLATES = [
    {"relation": "P17", "template": "[X] lies in [Y] .", "label": "country", "type": "N-1"},
    {"relation": "P37", "template": "people of [X] speaks [Y] ."},
    {"relation": "P30", "template": "[Y] is near [X] ."},
]
PATTERNS = {
    "P17": ["[X] lies in [Y] .", "the [X] of [Y]", "[X] is in [Y] ."],
    "P37": ["[X] speaks [Y] .", "[Y] in [X]"],
}


def uuid(relation: str, number: int) -> str:
    return f"{relation}-u{number}"


def write_lama(folder: Path) -> Path:
    """The whole folder; returns it."""
    (folder / "TREx").mkdir(parents=True)
    for relation, facts in FACTS.items():
        rows = [_fact(relation, number, *fact) for number, fact in enumerate(facts)]
        data = gzip.compress(jsonl(rows))
        (folder / "TREx" / f"{relation}.jsonl.gz").write_bytes(data)
    (folder / "relations.jsonl").write_bytes(jsonl(TEMPLATES))
    (folder / "Squad").mkdir()
    (folder / "Squad" / "test.jsonl").write_bytes(jsonl(SQUAD))
    (folder / "optiprompt").mkdir()
    for name in ("AutoPrompt", "LPAQA"):
        (folder / "optiprompt" / f"{name}_relations.jsonl").write_bytes(jsonl(TEMPLATES[:2]))
    words = b"old\nnear\npeople\nFrance\nthe\n"
    (folder / "optiprompt" / "common_vocab_cased.txt.gz").write_bytes(gzip.compress(words))
    patterns = {
        f"graphs_json/{relation}.jsonl": jsonl({"pattern": text, "lemma": "x"} for text in texts)
        for relation, texts in PATTERNS.items()
    }
    write_tar(folder / "pararel_patterns.tar.gz", patterns)
    write_tar(folder / "pararel_trex_lms_vocab.tar.gz", _pararel_facts())
    write_tar(folder / "lpaqa_prompts.tar.gz", LPAQA)
    write_tar(folder / "primed_negated.tar.gz", {"TREx/high_ranked/P17.jsonl": jsonl(ALTERED)})
    return folder


def jsonl(rows: Iterable[Mapping[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def write_tar(path: Path, files: Mapping[str, bytes]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


def _fact(relation: str, number: int, head: str, subject: str, tail: str, answer: str) -> Any:
    sentences = [f"{subject} lies in the old [MASK]", f"the people of {subject} and [MASK]"]
    return {
        "uuid": uuid(relation, number), "predicate_id": relation, "sub_uri": head,
        "sub_label": subject, "obj_uri": tail, "obj_label": answer,
        "evidences": [
            {"sub_surface": subject, "obj_surface": answer, "masked_sentence": sentence}
            for sentence in sentences
        ],
    }  # fmt: skip


def _pararel_facts() -> dict[str, bytes]:
    known = [
        {"sub_label": subject, "obj_label": answer, "uuid": uuid("P17", number)}
        for number, (_, subject, _, answer) in enumerate(FACTS["P17"][:2])
    ]
    nameless = [{"sub_label": name, "obj_label": "Europe", "uuid": name} for name in ("A", "B")]
    return {
        "trex_lms_vocab/P17.jsonl": jsonl(known),
        "trex_lms_vocab/P30.jsonl": jsonl(nameless),
        "trex_lms_vocab/P999.jsonl": jsonl(nameless[:1]),
    }


SQUAD = [
    {"masked_sentences": ["the river is [MASK]"], "obj_label": "old", "id": "s1",
     "sub_label": "Squad"},
    {"masked_sentences": ["[MASK] and [MASK]"], "obj_label": "old", "id": "s2",
     "sub_label": "Squad"},
    {"masked_sentences": ["people lies [MASK]"], "obj_label": "near", "id": "s3",
     "sub_label": "Squad"},
]  # fmt: skip
ALTERED = [
    {"sub_label": subject, "obj_label": answer, "uuid": number,
     "masked_sentences": [f"{subject} lies in [MASK] ."],
     "masked_negations": [f"{subject} lies {no}in [MASK] ."],
     "masked_misprimed": [f"{prime}? {subject} lies in [MASK] ."]}
    for number, (subject, answer, no, prime) in enumerate([
        ("Paris", "France", "not ", "Ibm? "), ("Berlin", "Germany", "", "old"),
        ("Nowhere", "near", "not ", "old"),
    ])
]  # fmt: skip
LPAQA = {
    "prompt/mine/P17.jsonl": jsonl(
        [{"template": "[X] of [Y] .", "weight": 0.2}, {"template": "[X] in [Y] .", "weight": 0.7}]
    ),
    "prompt/paraphrase/P17.jsonl": jsonl([{"template": "[X] within [Y] .", "weight": 1}]),
    "prompt/manual_paraphrase/P17.txt": b"[X] lies in [Y] .\n\n[X] lies in [Y] .\n[X] [X] [Y]\n",
}
