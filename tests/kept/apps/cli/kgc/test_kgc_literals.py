"""Numbers and dates before descriptions: read where training read them, refused where missing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from kept.apps.cli.kgc.opening import open_over
from kept.kgc.completers.texts.literals import N_LITERALS, with_literals
from kept.kge.splits import read_splits
from tests.kept.apps.cli.kgc.kgc_toy import done, kept


def graph_with_literals(chain: Path, folder: Path) -> Path:
    shutil.copytree(chain, folder)
    lines = ["e03\thttp://example.org/birthDate\t1953-03-12T00:00:00Z", "e03\theight_m\t1.75e0",
             "e04\tnext\t4", "nobody\theight_m\t2",
             *(f"e05\tn{i}\t{i}" for i in range(N_LITERALS + 2))]  # fmt: skip
    (folder / "literals.tsv").write_text("\n".join(lines) + "\n")
    (folder / "entity2textlong.txt").write_text("e03\ta number\n")
    return folder


def test_literals_stand_before_descriptions(chain: Path, tmp_path: Path) -> None:
    source = graph_with_literals(chain, tmp_path / "kg")
    plain = read_splits(source, holdout=0.05, seed=0)
    splits = with_literals(plain, source)
    graph = splits.graph
    assert graph.id_space_hash == plain.graph.id_space_hash
    assert splits.splits_hash == plain.splits_hash
    assert graph.description(3) == "birth date: 1953-03-12; height m: 1.75. a number"
    assert graph.description(4) == "next: 4"
    assert str(graph.description(5)).count(";") == N_LITERALS - 1
    assert graph.description(6) is None
    assert "literals of 3 of 15 entities" in splits.notes[-1]


def test_what_training_read_is_read_again(chain: Path, host: Path, tmp_path: Path) -> None:
    source, model = graph_with_literals(chain, tmp_path / "kg"), tmp_path / "m"
    line = ("train", source, "--scorer", "dkrl", "--host", host, "--epochs", 2)
    output = done(*line, "--literals", "-o", model).stdout
    assert "literals of 3 of 15 entities" in output
    assert str(open_over(source, model).splits.graph.description(4)) == "next: 4"
    done(*line, "-o", tmp_path / "plain")
    assert open_over(source, tmp_path / "plain").splits.graph.description(4) is None
    question = ("predict", "e03", "next", "--kg", source, "-m", model, "--explain", "--json")
    prediction = json.loads(done(*question).stdout)
    assert any("1953-03-12" in reason["what"] for reason in prediction["reasons"])
    (source / "literals.tsv").unlink()
    told_off = kept("eval", source, "-m", model)
    assert told_off.exit_code == 1
    assert "lay literals.tsv" in " ".join(told_off.stderr.split())


def test_literals_of_others_and_scorers_without_texts_are_refused(
    chain: Path, host: Path, tmp_path: Path
) -> None:
    source = graph_with_literals(chain, tmp_path / "kg")
    refusal = kept("train", source, "--literals", "-o", tmp_path / "m")
    assert refusal.exit_code == 1
    assert "complex takes no --literals" in " ".join(refusal.stderr.split())
    (source / "literals.tsv").write_text("nobody\theight\t2\n")
    refusal = kept("train", source, "--scorer", "dkrl", "--host", host, "--literals", "-o",
                tmp_path / "m")  # fmt: skip
    assert refusal.exit_code == 1
    assert "no literal of an entity" in " ".join(refusal.stderr.split())


def test_a_mix_reads_what_its_scorers_were_trained_with(
    chain: Path, host: Path, tmp_path: Path
) -> None:
    source = graph_with_literals(chain, tmp_path / "kg")
    line = ("train", source, "--scorer", "dkrl", "--host", host, "--epochs", 2)
    done(*line, "--literals", "-o", tmp_path / "with")
    done(*line, "-o", tmp_path / "without")
    done("train", source, "--epochs", 1, "--width", 4, "-o", tmp_path / "table")
    mix = ("train", source, "--scorer", "mix", "--of", tmp_path / "with", "--of")
    done(*mix, tmp_path / "table", "-o", tmp_path / "mix")
    assert open_over(source, tmp_path / "mix").splits.graph.description(4) == "next: 4"
    refusal = kept(*mix, tmp_path / "without", "-o", tmp_path / "odd")
    assert refusal.exit_code == 1
    assert "with --literals and without" in " ".join(refusal.stderr.split())
