"""Analogies and relations of pairs, against places where the answer is known."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from kept.apps.cli import app
from kept.errors import EvaluationError
from kept.lab.probing.words.analogies import answer_analogies, induce_relations, words_of
from kept.lab.probing.words.questions import Analogy, pairs_of, read_analogies
from kept.lab.probing.words.spaces import Space, open_space, random_space
from kept.lab.probing.words.tables import RANDOM, shortfalls
from kg_loaders.errors import DamageError

N = 12


def _analogies() -> tuple[list[str], list[Analogy], Space]:
    """Two relations as two fixed offsets, over random first words: all of it can be told."""
    draws = torch.Generator().manual_seed(0)
    firsts = {name: torch.randn(N, 40, generator=draws) for name in ("one", "two")}
    offsets = {name: 4 * torch.randn(1, 40, generator=draws) for name in firsts}
    vectors = {}
    for name, starts in firsts.items():
        for i in range(N):
            vectors[f"{name}{i}"] = starts[i]
            vectors[f"{name}{i}'"] = (starts + offsets[name])[i]
    questions = [
        Analogy(name, f"{name}{i}", f"{name}{i}'", f"{name}{j}", f"{name}{j}'")
        for name in firsts
        for i, j in itertools.permutations(range(N), 2)
    ]
    words = words_of(questions)
    table = torch.stack([vectors[word] for word in words])
    return words, questions, Space.of(table, torch.ones(len(words)).bool())


def test_offsets_answer_and_random_vectors_do_not() -> None:
    words, questions, space = _analogies()
    answered = answer_analogies(space, words, questions)
    assert answered.n == len(questions) == 2 * N * (N - 1)
    assert answered.shares["3CosAdd"].estimate > 0.9
    assert answered.shares["3CosMul"].estimate > 0.9
    assert answered.shares["nearest to c"].estimate < 0.6
    strange = answer_analogies(random_space(space, 1), words, questions)
    assert strange.shares["3CosAdd"].high < 0.2
    induced, by_chance = (
        induce_relations(each, words, questions) for each in (space, random_space(space, 1))
    )
    assert induced.mean.low > by_chance.mean.high
    assert by_chance.mean.estimate < 0.45
    assert induced.n_pairs == 2 * N


def test_each_rule_is_its_loop() -> None:
    words, questions, _ = _analogies()
    draws = torch.randn(len(words), 5, generator=torch.Generator().manual_seed(2))
    known = torch.ones(len(words)).bool()
    known[3] = False
    space = Space.of(draws, known)
    index = {word: i for i, word in enumerate(words)}
    cos = (space.vectors @ space.vectors.T).tolist()
    right: dict[str, list[bool]] = {"3CosAdd": [], "3CosMul": [], "nearest to c": []}
    for q in questions:
        a, b, c, d = (index[w] for w in (q.a, q.b, q.c, q.d))
        if 3 in (a, b, c, d):
            continue
        rest = [i for i in range(len(words)) if i not in (a, b, c, 3)]
        best = {
            "3CosAdd": max(rest, key=lambda i: cos[i][b] - cos[i][a] + cos[i][c]),
            "3CosMul": max(
                rest, key=lambda i: (1 + cos[i][b]) * (1 + cos[i][c]) / (1 + cos[i][a] + 2e-3)
            ),
            "nearest to c": max(rest, key=lambda i: cos[i][c]),
        }
        for rule, answer in best.items():
            right[rule].append(answer == d)
    answered = answer_analogies(space, words, questions)
    for rule, each in right.items():
        assert answered.shares[rule].estimate == pytest.approx(np.mean(each))
    assert answered.n == len(right["3CosAdd"])
    assert answered.n + answered.n_left_out == len(questions)
    assert answered.candidates == len(words) - 1


def test_files_are_read_in_both_forms(tmp_path: Path) -> None:
    plain = tmp_path / "words.txt.gz"
    plain.write_bytes(
        gzip.compress(b": capital\nOslo Norway Cairo Egypt\nOslo Norway Cairo Egypt\n")
    )
    assert read_analogies(plain) == [Analogy("capital", "oslo", "norway", "cairo", "egypt")]
    assert pairs_of(read_analogies(plain)) == {"capital": [("oslo", "norway"), ("cairo", "egypt")]}
    table = tmp_path / "msr.csv"
    table.write_text(",type,word1,word2,word3,target\n0,JJ_JJR,good,better,rough,rougher\n")
    assert read_analogies(table) == [Analogy("JJ_JJR", "good", "better", "rough", "rougher")]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.txt", ": s\none two three\n", "line 2: 'one two three' has 3 words"),
        ("a.txt", ": s\n", "has no question"),
        ("a.csv", "a,b\n1,2\n", "line 1: columns"),
        ("a.csv", "type,word1,word2,word3,target\nx,a,b,,d\n", "line 2: a cell is empty"),
    ],
)
def test_faulty_files_name_the_line(name: str, text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DamageError, match=says):
        read_analogies(tmp_path / name)


def test_too_few_words_are_an_error() -> None:
    words, questions, space = _analogies()
    nothing = Space.of(space.vectors, torch.zeros(len(words)).bool())
    with pytest.raises(EvaluationError, match="0 of 264 questions"):
        answer_analogies(nothing, words, questions)
    with pytest.raises(EvaluationError, match="0 relations have 10 pairs"):
        induce_relations(nothing, words, questions)


def test_the_command(tmp_path: Path, host: Path) -> None:
    words, questions, space = _analogies()
    lines = [
        f"{w} {' '.join(map(str, v))}" for w, v in zip(words, space.vectors.tolist(), strict=True)
    ]
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("\n".join([f"{len(words)} 40", *lines]) + "\n")
    file = tmp_path / "questions.txt"
    analogy_lines = "\n".join(
        f": {name}\n"
        + "\n".join(f"{q.a} {q.b} {q.c} {q.d}" for q in questions if q.section == name)
        for name in ("one", "two")
    )
    file.write_text(analogy_lines + "\n")
    torch.testing.assert_close(open_space(str(vectors), words).vectors, space.vectors)
    out = tmp_path / "out"
    result = CliRunner().invoke(
        app,
        ["check", "analogies", str(vectors), str(host), "--questions", str(file), "-o", str(out)],
    )
    assert result.exit_code == 0, result.output
    values = json.loads((out / "analogies.json").read_text("utf-8"))["spaces"]
    assert [*values] == [str(vectors), str(host), "random vectors"]
    assert values[str(vectors)]["analogies"]["shares"]["3CosAdd"]["estimate"] > 0.9
    page = (out / "analogies.md").read_text("utf-8")
    assert "| one | " in page
    assert "random vectors" in page


def test_a_space_no_better_than_random_vectors_says_so() -> None:
    words, questions, space = _analogies()
    spaces = {"made": space, "noise": random_space(space, 0), RANDOM: random_space(space, 0)}
    rows = {
        name: (
            answer_analogies(one, words, questions, seed=0),
            induce_relations(one, words, questions, seed=0),
        )
        for name, one in spaces.items()
    }
    (line,) = shortfalls(rows)
    assert line.startswith("noise: ")
    assert "kept vectors train" in line


def _line(**places: float) -> Space:
    """Words at angles, in degrees, on a circle."""
    angles = torch.tensor([*places.values()]) * torch.pi / 180
    return Space.of(torch.stack([angles.cos(), angles.sin()], 1), torch.ones(len(places)).bool())


def test_the_product_rule_divides_by_the_nearness_to_a() -> None:
    """x is the nearest to b and to c; d is nearly as near, and farther from a."""
    places = {"a": 0.0, "b": 70.0, "c": 80.0, "d": 110.0, "x": 60.0}
    space, words = _line(**places), list(places)
    questions = [Analogy("s", "a", "b", "c", "d"), Analogy("s", "a", "c", "b", "d")]
    shares = answer_analogies(space, words, questions).shares
    assert {rule: share.estimate for rule, share in shares.items()} == {
        "3CosAdd": 1, "3CosMul": 1, "nearest to c": 0,
    }  # fmt: skip


def test_ten_pairs_are_enough_and_nine_are_not() -> None:
    _, questions, space = _analogies()
    ten = [q for q in questions if all(int(w.strip("onetw'")) < 10 for w in (q.a, q.c))]
    induced = induce_relations(space, words_of(ten), ten, seed=0)
    assert induced.n_pairs == 20
    assert induced.chance == 0.25, "of four pairs one is true"
    assert set(induced.relations) == {"one", "two"}
    nine = [q for q in ten if all("9" not in w for w in (q.a, q.c))]
    with pytest.raises(EvaluationError, match="0 relations have 10 pairs"):
        induce_relations(space, words_of(nine), nine)
    assert induced.mean.estimate == pytest.approx(np.mean([*induced.relations.values()]))


def test_no_answer_is_first_among_equals() -> None:
    """d and e are one point, so neither is nearer."""
    places = {"a": 0.0, "b": 30.0, "c": 60.0, "d": 90.0, "e": 90.0, "z": 240.0}
    space, words = _line(**places), list(places)
    questions = [Analogy("s", "a", "b", "c", "d"), Analogy("s", "a", "c", "b", "e")]
    answered = answer_analogies(space, words, questions)
    assert all(share.estimate == 0 for share in answered.shares.values())
    alone = [word for word in words if word != "e"]
    space = _line(**{word: places[word] for word in alone})
    questions = [questions[0], Analogy("s", "b", "c", "a", "d")]
    answered = answer_analogies(space, alone, questions)
    assert answered.shares["3CosAdd"].estimate == 1
