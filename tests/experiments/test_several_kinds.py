"""The study of several kinds of knowledge in small: data, rows, what is stored, the page."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from experiments.several_kinds.kinds import (
    FACTS,
    GRAMMAR,
    KINDS,
    LEXICON,
    TREEBANK,
    Kind,
    split_by,
    split_terms,
)
from experiments.several_kinds.tables import ALL, HOST, NEW, ROWS, SEQUENCE, page
from experiments.several_kinds.trial import (
    KindsTrial,
    Settings,
    adapters_of,
    named_states,
    read_kinds,
    row_states,
)
from kept import hosts
from kept.encoders.kadapter import KAdapter
from kept.errors import CheckpointError
from tests.kept.training.tiny_pretraining import write_host

CONFIG = Path(__file__).parents[2] / "experiments" / "several_kinds" / "three.yaml"
WORDS = ("the", "old", "city", "river", "near", "flows", "a", "of", "paris", "bonn", "seine", "x")
TREE = (("the", "DET", 2, "det"), ("old", "ADJ", 3, "amod"), ("city", "NOUN", 4, "nsubj"),
        ("flows", "VERB", 0, "root"), ("near", "ADV", 4, "advmod"))  # fmt: skip
TERMS = [a + b for a in "abcdefghijklmnopqrst" for b in "uvwxyz"]
PAIRS = [(a, b) for i, a in enumerate(TERMS) for j, b in enumerate(TERMS[:i]) if (i - j) % 5 == 1]


def write_data(root: Path) -> Path:
    """Twelve facts of each of two relations, and three treebanks of eight sentences."""
    trex, trees = root / "lama/TREx", root / TREEBANK
    trex.mkdir(parents=True)
    trees.mkdir(parents=True)
    for relation, says in (("P1", "{s} flows near [MASK]"), ("P2", "the city of {s} a [MASK]")):
        rows = [
            {"uuid": f"{relation}-{i}", "sub_uri": f"{relation}Q{i}", "obj_uri": f"Q{i % 3}",
             "predicate_id": relation, "evidences": [
                 {"sub_surface": WORDS[i], "obj_surface": WORDS[(i + 5) % 12],
                  "masked_sentence": says.format(s=WORDS[i])}]}
            for i in range(12)
        ]  # fmt: skip
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (trex / f"{relation}.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    lines = [
        f"{n}\t{form}\t{form}\t{tag}\t_\t_\t{head}\t{relation}\t_\t_"
        for n, (form, tag, head, relation) in enumerate(TREE, start=1)
    ]
    text = ("\n".join(lines) + "\n\n") * 8
    for name in ("train_from_sources", "en_ewt-ud-dev", "en_ewt-ud-test"):
        (trees / f"{name}.conllu.gz").write_bytes(gzip.compress(text.encode()))
    return root


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    committed = yaml.safe_load(CONFIG.read_text("utf-8"))
    small = {
        "host": str(write_host(tmp_path / "host")), "n_layers": 2, "seeds": [0, 1],
        "adapter": {"n_layers": 1, "width": 8, "n_heads": 2},
        "adapter_steps": 2, "batch_size": 4, "warmup_steps": 0,
        "facts": {"per_relation": 12, "train": 10, "probe": 8, "asked": 6},
        "grammar": {"train": 8, "probe": 16, "asked": 10},
        "lexicon": {"train": 8, "probe": 8, "asked": 6, "n_pairs": 4},
    }  # fmt: skip
    return Settings.model_validate(committed | small)


@pytest.fixture
def kinds(settings: Settings, tmp_path: Path) -> dict[str, Kind]:
    root = write_data(tmp_path / "data")
    return read_kinds(settings, root, PAIRS, hosts.load_tokenizer(settings.host))


def test_nothing_that_is_asked_was_trained_or_fitted(kinds: dict[str, Kind]) -> None:
    facts = kinds[FACTS]
    trained = {facts.graph.entities.name(i) for i in np.unique(facts.graph.triples[:, 0])}
    fitted, evaluated = ({item.group for item in part} for part in (facts.probe, facts.questions))
    assert trained
    assert not trained & fitted
    assert not (trained | fitted) & evaluated
    assert {item.label for item in facts.questions} <= {"P1", "P2"}
    assert len(kinds[GRAMMAR].questions) == 10
    assert {item.label for item in kinds[LEXICON].probe} == {"joined", "not joined"}


def test_terms_stand_in_one_part_and_keys_stay_together() -> None:
    parts = split_terms(PAIRS, {"train": 99, "probe": 99, "asked": 99}, np.random.default_rng(0))
    terms = [{term for pair in part for term in pair} for part in parts]
    assert sum(map(len, terms)) == len(set().union(*terms))
    keys = ["a", "a", "b", "c", "c", "d"]
    sizes = {"train": 9, "probe": 1, "asked": 1}
    places = split_by(keys, sizes, np.random.default_rng(1))
    assert sorted(i for part in places for i in part) == [0, 1, 2, 3, 4, 5]
    groups = [{keys[i] for i in part} for part in places]
    assert sum(map(len, groups)) == 4


def test_an_adapter_stays_what_it_is_among_others(
    settings: Settings, kinds: dict[str, Kind], tmp_path: Path
) -> None:
    """Its states are those of an encoder that has it alone: nothing flows between adapters."""
    fused = adapters_of(settings, kinds, 0)
    assert fused.names == sorted([NEW, *KINDS])
    items = kinds[FACTS].questions
    together = named_states(fused, items)
    fused.save_adapter(tmp_path / "one", GRAMMAR)
    alone = KAdapter.from_host(settings.opened(), kinds[GRAMMAR].graph, adapters={}, fusion="none")
    alone.load_adapter(tmp_path / "one", any_graph=True)
    actual = named_states(alone.eval(), items)
    for name in (HOST, GRAMMAR):
        torch.testing.assert_close(actual[name], together[name])
    assert not torch.allclose(together[GRAMMAR], together[NEW])


def test_what_a_row_reads() -> None:
    named = {name: torch.full((2, 3), float(i)) for i, name in enumerate([HOST, NEW, *KINDS], 1)}
    actual = {row: row_states(row, named) for row in ROWS}
    sums = {HOST: 1, f"+ {NEW}": 3, f"+ three {NEW}": 7, f"+ {ALL}": 13}
    sums |= {f"+ {kind}": 1 + i for i, kind in enumerate(KINDS, 3)}
    for row, value in sums.items():
        assert torch.equal(actual[row], torch.full((2, 3), float(value))), row
    states = [1.0, 1, 1, 3, 3, 3, 4, 4, 4, 5, 5, 5]
    assert actual[f"beside {ALL}"].tolist() == [states] * 2
    assert actual[f"beside three {NEW}"].tolist() == [[1.0] * 3 + [2.0] * 9] * 2
    assert set(sums) | {f"beside {ALL}", f"beside three {NEW}"} == set(ROWS)


def test_the_study_in_small(
    settings: Settings, kinds: dict[str, Kind], tmp_path: Path, monkeypatch: Any
) -> None:
    out = tmp_path / "run"
    monkeypatch.setattr("experiments.several_kinds.trial.probe_answers", _right_by_number)
    lines: list[str] = []
    monkeypatch.setattr("experiments.several_kinds.trial.announce", lines.append)
    trial = KindsTrial(settings, kinds, out)
    trial.run_missing()
    report = trial.answers(trial.stored())
    assert [*report[0]] == [*ROWS, *SEQUENCE]
    assert all(
        len(report[0][row][k.name]) == len(k.questions) for row in ROWS for k in kinds.values()
    )
    assert len(report) == 2
    assert len(lines) == 2 * (len(KINDS) + len(SEQUENCE))
    for kind in KINDS:
        assert (out / "adapters/0" / kind / "adapter.json").is_file()
    trial.run_missing()
    assert len(lines) == 2 * (len(KINDS) + len(SEQUENCE))
    other = settings.model_copy(update={"adapter_steps": 3})
    with pytest.raises(CheckpointError, match="came of other"):
        KindsTrial(other, kinds, out).cell("adapters", 0)
    groups = {kind.name: [item.group for item in kind.questions] for kind in kinds.values()}
    text = page(settings, report, groups, [repr(kind) for kind in kinds.values()], "the command")
    for row in (*ROWS, *SEQUENCE):
        assert f"| {row} |" in text
    assert "| own adapter − before training | +" in text


def _right_by_number(kind: Kind, fitted: Any, states: Any, seed: int) -> list[bool]:
    """A probe needs more questions than there are here."""
    assert len(fitted) == len(kind.probe)
    return [(i + seed) % 2 == 0 for i in range(len(states))]
