"""Studies of stages before a task in small: their files, every row, what is stored, the page."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import torch

from experiments.adaptation.trial import empty_graph
from experiments.joint_spaces import medical
from experiments.joint_spaces.medical_probe import OTHERS, probes
from experiments.joint_spaces.medical_probe import page as probe_page
from experiments.lexical import files
from experiments.lexical.similarity import compare_seeds
from experiments.stages import MODEL, StagedStudy, StagedTrial, page, placed
from experiments.stages import write_host as write_first_layers
from kept import hosts
from kept.errors import CheckpointError, ConfigError
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from tests.kept.training.tiny_pretraining import write_host

ROOT = Path(__file__).parents[2] / "experiments"
SENSES = ROOT / "lexical/senses.yaml"
REVIEWS = ROOT / "lexical/reviews.yaml"
SIMILARITY = ROOT / "lexical/similarity.yaml"
AVERAGING = ROOT / "adaptation/averaging.yaml"
MEDICAL = ROOT / "joint_spaces/medical.yaml"
WORDS = ("old", "city", "river", "people", "capital", "seine")
TYPES = ("noun.location", "noun.object", "noun.group")
STEPS = {"steps": 2, "epochs": None, "batch_size": 4, "warmup_steps": 0}


def wordnet_graph() -> KnowledgeGraph:
    """Six synsets of three types, two of them with two names."""
    records: list[Any] = []
    for i, word in enumerate(WORDS):
        name = f"wn:{i:08d}-n"
        records += [Text(name, TextKind.LABEL, word, "en"),
                    Text(name, TextKind.TYPE, TYPES[i % 3], "")]  # fmt: skip
        if i < 2:
            records.append(Text(name, TextKind.ALIAS, WORDS[i + 2], "en"))
        records.append(Triple(name, "hypernym", f"wn:{(i + 1) % 6:08d}-n"))
    return graph_from_records(records)


def zipped(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    packed = path if path.suffix == ".gz" else path.with_name(f"{path.name}.gz")
    packed.write_bytes(gzip.compress(text.encode()))


def write_lexical(root: Path) -> None:
    """A treebank, rated sentences, a lexicon, labelled sentences and pairs of WiC."""
    sentence = ["the", "old", "city", "near", "the", "river", "flows"]
    tree = "\n".join(
        f"{n}\t{form}\t{form}\tX\t_\t_\t{0 if n == 1 else 1}\tdep\t_\t_"
        for n, form in enumerate(sentence, start=1)
    )
    zipped(root / files.TREES, f"{tree}\n\n" * 6)
    rated = [f"__label__{1 + i % 5}\tthe {WORDS[i % 6]} near the city" for i in range(8)]
    zipped(root / files.STARS, "\n".join(rated) + "\n")
    rows = [f"n\t{i:08d}\t{i:08d}\t{i / 8}\t{0}\t{word}#1" for i, word in enumerate(WORDS)]
    zipped(root / files.LEXICON, "\n".join(["pos\toffset\toffset_debian\tp\tn\tterms", *rows]))
    for number, name in enumerate(files.REVIEWS):
        lines = [f"a {WORDS[i]} of {WORDS[(i + number + 1) % 6]}\t{i % 2}" for i in range(6)]
        path = root / "sentiment/uci_sentences" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(["Review", *lines]) + "\n", encoding="utf-8")
    questions = [
        {"text": f"Word: {w}. Sentence 1: the {w} flows. Sentence 2: a {w} of old.", "label": i % 2}
        for i in range(24)
        for w in (WORDS[i % 6],)
    ]
    text = "".join(json.dumps({**row, "text": row["text"] + "x" * 0}) + "\n" for row in questions)
    zipped(root / "linguistic/wic/train.jsonl.gz", text)


def small(committed: Path, tmp_path: Path, **changes: Any) -> StagedStudy:
    """The committed study on a tiny host for two steps a part."""
    study = StagedStudy.read(committed)
    host = str(write_host(tmp_path / "host"))
    changes_of_all = {"host": host, "training": {**study.task["training"], **STEPS}}
    task = {**study.task, **changes_of_all, "graph": {"max_words": 30}} | changes.pop("task", {})
    if "host" not in study.task:
        del task["host"]
    pretrain = study.pretrain
    if pretrain:
        pretrain = {**pretrain, **changes_of_all, "graph": {"max_words": 30}}
        pretrain["training"] = {**study.pretrain["training"], **STEPS}
    rows = {}
    for row, message in study.rows.items():
        fields = {k: host if k == "host" else v for k, v in message.task.items()}
        if "training" in fields and "averaging" in fields["training"]:
            fields["training"] = {"averaging": {**fields["training"]["averaging"], "steps": 2}}
        rows[row] = message.model_copy(update={"task": fields})
    update = {"task": task, "pretrain": pretrain, "rows": rows, "seeds": (0,)} | changes
    return study.model_copy(update=update)


def run_all(
    study: StagedStudy, prepare: Callable[..., None], root: Path, out: Path
) -> dict[str, Any]:
    (out / "made").mkdir(parents=True)
    prepare(study, root, out / "made")
    torch.set_num_threads(1)
    trial = StagedTrial(study, root, out)
    trial.run_missing()
    return trial.stored()


def whole(study: StagedStudy, cells: dict[str, Any]) -> str:
    """The page, which has every row and difference."""
    wanted = {row: [*study.seeds] for row in study.rows}
    assert {row: [*seeds] for row, seeds in cells.items()} == wanted
    text = page(study, cells, "the command")
    assert all(f"\n| {row} | " in text for row in study.rows)
    assert all(f"| {one} − {other} | " in text for one, other in study.differences)
    return text


@pytest.fixture
def lexical(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def saved(folder: Path) -> KnowledgeGraph:
        if not (folder / "wn").exists():
            wordnet_graph().save(folder / "wn")
        return KnowledgeGraph.open(folder / "wn")

    monkeypatch.setattr(files, "wordnet", saved)
    write_lexical(tmp_path / "data")
    return tmp_path / "data"


def test_senses_in_small(tmp_path: Path, lexical: Path) -> None:
    study = small(SENSES, tmp_path, files={"n_texts": 6})
    cells = run_all(study, files.senses, lexical, tmp_path / "run")
    whole(study, cells)
    senses, shuffled = (
        (tmp_path / "run/made" / name).read_text("utf-8")
        for name in ("linked.jsonl", "strangers.jsonl")
    )
    assert senses != shuffled
    assert len(senses.splitlines()) == 6
    n_stages = len(list((tmp_path / "run/stages").glob(f"*/{MODEL}")))
    assert n_stages == sum(row.pretrain is not None for row in study.rows.values())
    assert not list((tmp_path / "run/task").glob("*"))
    assert StagedTrial(study, lexical, tmp_path / "run").stored() == cells
    other = study.model_copy(update={"files": {"n_texts": 5}})
    with pytest.raises(CheckpointError, match="came of other settings"):
        StagedTrial(other, lexical, tmp_path / "run").cell("text", 0)


def test_reviews_in_small(tmp_path: Path, lexical: Path) -> None:
    study = small(REVIEWS, tmp_path, files={"n_texts": 6, "n_train": 8, "n_test": 6})
    cells = run_all(study, files.reviews, lexical, tmp_path / "run")
    assert "is right in 0." in whole(study, cells)
    result = tmp_path / "run/made"
    true, shuffled = (
        [line.split("\t") for line in (result / name).read_text("utf-8").splitlines()]
        for name in ("swn.txt", "shuffled.txt")
    )
    assert [row[:2] + row[4:] for row in true] == [row[:2] + row[4:] for row in shuffled]
    assert sorted(row[2] for row in true) == sorted(row[2] for row in shuffled)
    assert true != shuffled
    train, test = (set((result / f"{n}.tsv").read_text("utf-8").splitlines()[1:]) for n in
                   ("train", "test"))  # fmt: skip
    assert len(train) == 8
    assert len(test) == 6
    assert not train & test


def test_similarity_in_small(tmp_path: Path, lexical: Path) -> None:
    study = small(SIMILARITY, tmp_path, files={"n_texts": 8})
    out = tmp_path / "run"
    (out / "made").mkdir(parents=True)
    files.similarity(study, lexical, out / "made")
    write_first_layers(study.pretrain["host"], 1, out / "made/host")
    true, false = (
        [line.split() for line in (out / "made" / name).read_text("utf-8").splitlines()]
        for name in ("pairs.txt", "shuffled.txt")
    )
    assert [one for one, _ in true] == [one for one, _ in false]
    assert sorted(other for _, other in true) == sorted(other for _, other in false)
    pairs = tmp_path / "pairs.txt"
    rows = [f"{one}\t{other}\t{n}" for n, (one, other) in enumerate(combinations(WORDS, 2))]
    pairs.write_text("\n".join(["a\tb\tscore", *rows]) + "\n", encoding="utf-8")
    text = compare_seeds(study, pairs, lexical, out, "the command")
    assert all(f"\n| {row} | all | " in text for row in study.rows)
    assert "| 2 |" not in text.split("\n\n")[0]


def test_averaging_in_small(tmp_path: Path) -> None:
    root = tmp_path / "data"
    folder = root / "linguistic/sst2"
    rows = [f"the {WORDS[i % 6]} of {WORDS[(i + 1) % 6]} {'a' if i < 6 else 'the'}\t{i % 2}"
            for i in range(12)]  # fmt: skip
    zipped(folder / "train.tsv.gz", "\n".join(["sentence\tlabel", *rows]) + "\n")
    (folder / "test.tsv").write_text("sentence\tlabel\nan old city\t1\nthe river\t0\n")
    study = small(AVERAGING, tmp_path)
    whole(study, run_all(study, empty_graph, root, tmp_path / "run"))


def write_medical(root: Path) -> None:
    folder = root / medical.FOLDER
    drugs = [(f"DB{i}", WORDS[i]) for i in range(4)]
    diseases = [("DOID:1", "france"), ("DOID:2", "bonn"), ("DOID:3", "paris")]
    zipped(folder / medical.DRUGS, "\n".join(
        ["drugbank_id\tname\tdescription",
         *(f"{name}\t{word}\tthe {word} of the old france" for name, word in drugs)]))  # fmt: skip
    zipped(folder / medical.PROTEINS, "\n".join(
        ["drugbank_id\tcategory\tuniprot_id",
         *(f"{name}\ttarget\tP{i % 2}" for i, (name, _) in enumerate(drugs))]))  # fmt: skip
    zipped(
        folder / medical.DISEASES,
        "\n".join(
            ["id\tlabel\tsubClassOf", *(f"{name}\t{word}\tparis" for name, word in diseases)]
        ),
    )
    for name, rows in {
        medical.SYMPTOMS: ["disease_id\tdisease_label\tsymptom_id\tsymptom_label",
                           "DOID:1\tfrance\tSYMP:1\twater"],
        medical.INDICATIONS: ["doid_id\tdrugbank_id\tdisease\tdrug\tcategory",
                              *(f"{d}\t{name}\t{word}\t{drug}\tDM" for i, (name, drug) in
                                enumerate(drugs) for d, word in (diseases[i % 2],)),
                              "DOID:3\tDB0\tparis\told\tNOT"],
    }.items():  # fmt: skip
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("\n".join(rows) + "\n", encoding="utf-8")
    for slim in medical.SLIMS:
        zipped(folder / slim, '[Term]\nid: DOID:1\nname: france\ndef: "a city near a river." [x]\n')


def test_medical_in_small(tmp_path: Path) -> None:
    root = tmp_path / "data"
    write_medical(root)
    committed = StagedStudy.read(MEDICAL)
    sources = {
        name: message | ({"epochs": 1, "min_word_count": 1, "min_tokens": 2} if "model" in message
                      else {"n_epochs": 1} if message else {})
        for name, message in committed.files["sources"].items()
    }  # fmt: skip
    study = small(
        MEDICAL, tmp_path,
        files={**committed.files, "share_asked": 0.5, "width": 8, "sources": sources},
    )  # fmt: skip
    whole(study, run_all(study, medical.prepare, root, tmp_path / "run"))
    actual = probes(study, root, tmp_path / "run/made")
    assert [*actual] == [name + kind for name in sources for kind in ("", OTHERS)]
    assert all(
        counts.sum(0).tolist()[1:] == [4, 4] for seeds in actual.values() for counts in seeds
    )
    text = probe_page({name: seeds * 2 for name, seeds in actual.items()}, "the command")
    assert f"| bertmk{OTHERS} | " in text
    train, test = medical.questions(root, 0.5)
    assert {q.drug for q in train}.isdisjoint({q.drug for q in test})
    for part in (train, test):
        labels = [q.label for q in part]
        assert labels.count(medical.STATED) == labels.count(medical.NOT_GIVEN) == 2
    not_given = {(q.drug[0], q.disease[0]) for q in [*train, *test] if q.label != medical.STATED}
    assert ("DB0", "DOID:3") not in not_given
    graph = KnowledgeGraph.open(tmp_path / "run/made/kg")
    assert not any(
        graph.entities.name(h).startswith("DB") and graph.entities.name(t).startswith("DOID")
        for h, _, t in graph.triples.tolist()
    )


def test_the_host_has_its_first_layers(tmp_path: Path) -> None:
    write_first_layers(str(write_host(tmp_path / "host")), 1, tmp_path / "made/host")
    opened = hosts.load_host(str(tmp_path / "made/host"))
    assert opened.config.num_hidden_layers == 1
    assert len(hosts.load_tokenizer(str(tmp_path / "made/host"))) > 10


def test_paths_are_placed(tmp_path: Path) -> None:
    fields = {"a": ["DATA/x", "MADE/y-SEED.txt"], "b": {"c": "z"}}
    actual = placed(fields, tmp_path / "data", tmp_path / "out", 3)
    assert actual == {
        "a": [str(tmp_path / "data/x"), str(tmp_path / "out/made/y-3.txt")], "b": {"c": "z"},
    }  # fmt: skip


def test_a_difference_of_unknown_rows_is_refused(tmp_path: Path) -> None:
    text = (AVERAGING).read_text("utf-8")
    path = tmp_path / "x.yaml"
    path.write_text(text.replace("[distilled, plain]", "[taught, plain]"), encoding="utf-8")
    with pytest.raises(ConfigError, match="differences name \\['taught'\\]"):
        StagedStudy.read(path)
