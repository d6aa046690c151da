"""`kept link index`, linking with it, and the methods."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from string import ascii_lowercase

import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner, Result

import kept.linking.index
import kept.linking.linkers
from entity_linking import LinkedText, LinkingError, gold_link, read_jsonl, write_jsonl
from entity_linking.calibration.fitting import FittedDecision, save_decision
from entity_linking.decision import Decision
from entity_linking.explain import explain
from entity_linking.names import NameIndex
from entity_linking.names.identifiers import by_identifiers
from entity_linking.scorers.features import PriorScorer
from entity_linking.scorers.reranker import Reranker
from kept.apps.cli import app
from kept.linking.index import LinkIndex, name_recall
from kept.linking.linkers import METHODS, LinkerSettings, linker_key, open_linker
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from kg_loaders.damage import DamageReport

TEXT = "Paris, the capital of France, lies on the Seine."


@pytest.fixture(scope="module")
def kg(small_graph: KnowledgeGraph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("index") / "kg"
    small_graph.save(folder)
    return folder


@pytest.fixture(scope="module")
def index(small_graph: KnowledgeGraph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("index") / "made"
    LinkIndex.build(small_graph, folder, fuzzy=True)
    return folder


class Letters:
    """A sentence encoder that knows which letters a text holds."""

    name, width = "letters", 26

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = [[1e-3 + text.lower().count(c) for c in ascii_lowercase] for text in texts]
        vectors = np.array(rows, np.float32).reshape(-1, self.width)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture
def letters(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (kept.linking.index, kept.linking.linkers):
        monkeypatch.setattr(module, "load_encoder", lambda host: Letters())


@pytest.fixture(scope="module")
def rome() -> KnowledgeGraph:
    return graph_from_records([Text("Q220", TextKind.LABEL, "Rome", "en")])


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["link", *map(str, arguments)], env={"COLUMNS": "200"})


def test_an_index_is_made_and_links_the_same(kg: Path, tmp_path: Path) -> None:
    indexed = run("index", kg, "-o", tmp_path / "index", "--fuzzy")
    assert indexed.exit_code == 0, indexed.output
    assert "recall of" in indexed.output
    assert "MiB" in indexed.output
    assert "FuzzyIndex" in indexed.output
    plain = run(TEXT, "--kg", kg, "--json")
    assert plain.exit_code == 0, plain.output
    assert run(TEXT, "--kg", kg, "--index", tmp_path / "index", "--json").output == plain.output
    again = run("index", kg, "-o", tmp_path / "index")
    assert again.exit_code == 1
    assert "--force" in again.output
    assert run("index", kg, "-o", tmp_path / "index", "--force").exit_code == 0
    assert LinkIndex.open(tmp_path / "index").fuzzy is None


def test_another_graph_is_added(kg: Path, rome: KnowledgeGraph, tmp_path: Path) -> None:
    rome.save(tmp_path / "rome")
    run("index", kg, "-o", tmp_path / "index", "--fuzzy")
    before = {path for path in (tmp_path / "index").rglob("*") if path.name != "manifest.json"}
    refused = run("Rome", "--kg", tmp_path / "rome", "--index", tmp_path / "index")
    assert refused.exit_code == 1
    assert "--add-to" in refused.output
    for _ in range(2):  # once more is no harm
        added = run("index", tmp_path / "rome", "--add-to", tmp_path / "index")
        assert added.exit_code == 0, added.output
    assert before <= set((tmp_path / "index").rglob("*")), "nothing was made again"
    opened = LinkIndex.open(tmp_path / "index")
    assert opened.fuzzy is not None
    assert len(opened.fuzzy.graph_hashes) == 2
    output = run("Paris and Rome.", "--kg", kg, "--index", tmp_path / "index", "--json").output
    assert [mention["entity"] for mention in json.loads(output)["mentions"]] == ["Q90", "Q220"]


def test_an_addition_keeps_what_another_process_added_meanwhile(
    kg: Path, rome: KnowledgeGraph, tmp_path: Path
) -> None:
    """Both opened the index before either added; the second sees what the first one wrote."""
    oslo = graph_from_records([Text("Q585", TextKind.LABEL, "Oslo", "en")])
    run("index", kg, "-o", tmp_path / "index", "--fuzzy")
    first, second = LinkIndex.open(tmp_path / "index"), LinkIndex.open(tmp_path / "index")
    first.add(rome)
    both = second.add(oslo)
    assert {"Rome", "Oslo", "Paris"} <= {
        name for name in ("Rome", "Oslo", "Paris") if both.names.find(name)
    }
    assert both.fuzzy is not None
    assert len(both.fuzzy.graph_hashes) == 3


def test_counts_make_priors(kg: Path, small_graph: KnowledgeGraph, tmp_path: Path) -> None:
    gold = [LinkedText("Paris", (gold_link(0, 5, "Q830149"),))] * 500
    write_jsonl(gold, tmp_path / "gold.jsonl")
    indexed = run("index", kg, "-o", tmp_path / "index", "--counts", tmp_path / "gold.jsonl")
    assert indexed.exit_code == 0, indexed.output
    settings = LinkerSettings(kg=str(kg), index=str(tmp_path / "index"))
    (linked,) = open_linker(settings, small_graph).link(["Paris"])
    assert linked.links[0].entity == "Q830149"


@pytest.mark.parametrize("method", sorted({*METHODS} - {"trained"}))
@pytest.mark.usefixtures("letters")
def test_methods_link_and_explain(kg: Path, small_graph: KnowledgeGraph, method: str) -> None:
    settings = LinkerSettings(kg=str(kg), method=method)  # type: ignore[arg-type]
    linker = open_linker(settings, small_graph)
    (linked,) = linker.link([TEXT])
    first, *others = [link.entity for link in linked.links]
    assert others == ["Q142", "Q1471"]
    # vectors of letters cannot tell which Paris it is
    assert first == "Q90" or (method == "dense" and first == "Q830149")
    ((paris, *_),) = explain(linker, [linked])
    assert [each.candidate for each in paris] == list(linked.links[0].candidates)
    assert paris[0].confidence == pytest.approx(linked.links[0].confidence)
    assert paris[1].confidence <= paris[0].confidence
    for candidate in paris:
        if method != "prior":
            assert sum(candidate.parts.values()) == pytest.approx(candidate.candidate.score)
    result = run(TEXT, "--kg", kg, "--method", method, "--explain")
    assert result.exit_code == 0, result.output
    runner_up = "Q830149 Paris, city in Texas" if first == "Q90" else "Q90 Paris"
    assert runner_up in result.output


@pytest.mark.usefixtures("letters")
def test_vectors_in_an_index(
    kg: Path, small_graph: KnowledgeGraph, rome: KnowledgeGraph, tmp_path: Path
) -> None:
    of_vectors = run("index", kg, "-o", tmp_path / "index", "--dense", "minilm")
    assert of_vectors.exit_code == 0, of_vectors.output
    assert "flat index of 10 entities: recall" in of_vectors.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index"]
    plain = run(TEXT, "--kg", kg, "--method", "dense", "--json")
    assert plain.exit_code == 0, plain.output
    indexed = run(TEXT, "--kg", kg, "--method", "dense", "--index", tmp_path / "index", "--json")
    assert [m["entity"] for m in json.loads(indexed.output)["mentions"]] == [
        m["entity"] for m in json.loads(plain.output)["mentions"]
    ]
    rome.save(tmp_path / "rome")
    added = run("index", tmp_path / "rome", "--add-to", tmp_path / "index")
    assert added.exit_code == 0, added.output
    assert "Q220" in (LinkIndex.open(tmp_path / "index").dense or ())
    settings = LinkerSettings(kg=str(kg), index=str(tmp_path / "index"), method="dense")
    text = LinkedText("It lies by the zzz.", (gold_link(15, 18, None),))
    (linked,) = open_linker(settings, small_graph).disambiguate([text])
    assert "card like the context" in linked.links[0].candidates[0].reason


def test_vectors_that_are_not_there(kg: Path, index: Path) -> None:
    result = run("Paris", "--kg", kg, "--index", index, "--method", "dense")
    assert result.exit_code == 1
    assert "has no vectors" in result.output


def test_train_and_link(kg: Path, tmp_path: Path) -> None:
    gold = []
    for i in range(40):
        gold.append(LinkedText(f"Paris, France, {i}", (gold_link(0, 5, "Q90"),)))
        gold.append(LinkedText(f"Paris, Texas, {i}", (gold_link(0, 5, "Q830149"),)))
    write_jsonl(gold, tmp_path / "gold.jsonl")
    trained = run("train", tmp_path / "gold.jsonl", "--kg", kg, "-o", tmp_path / "model")
    assert trained.exit_code == 0, trained.output
    arguments = ("--kg", kg, "--method", "trained", "--model", tmp_path / "model", "--explain")
    result = run("Paris, Texas, too", *arguments)
    assert result.exit_code == 0, result.output
    assert "1:0-5  Paris  Q830149 Paris" in result.output
    assert "log-odds against NIL +" in result.output


@pytest.mark.parametrize("added", ["coherence", "dense"])
def test_a_model_with_another_scorer(kg: Path, tmp_path: Path, added: str) -> None:
    gold = [LinkedText(f"Paris, France, {i}", (gold_link(0, 5, "Q90"),)) for i in range(40)]
    gold += [LinkedText(f"Paris, Texas, {i}", (gold_link(0, 5, "Q830149"),)) for i in range(40)]
    write_jsonl(gold, tmp_path / "gold.jsonl")
    trained = run(
        "train", tmp_path / "gold.jsonl", "--kg", kg, "--add", added, "-o", tmp_path / "m"
    )
    assert trained.exit_code == 0, trained.output
    assert Reranker.scorer_names(tmp_path / "m")[-1] == added
    result = run("Paris, Texas", "--kg", kg, "--method", "trained", "--model", tmp_path / "m")
    assert result.exit_code == 0, result.output
    assert "Q830149" in result.output


def test_a_scorer_that_cannot_be_added(kg: Path, tmp_path: Path) -> None:
    write_jsonl([LinkedText("Paris", (gold_link(0, 5, "Q90"),))], tmp_path / "gold.jsonl")
    refusal = run(
        "train", tmp_path / "gold.jsonl", "--kg", kg, "--add", "prior", "-o", tmp_path / "m"
    )
    assert refusal.exit_code == 1
    assert (
        "no scorer to add is called 'prior'; add one of coherence, dense, cross" in refusal.output
    )


def test_typos_in_given_mentions_are_corrected(kg: Path, small_graph: KnowledgeGraph) -> None:
    text = LinkedText("In Berlim.", (gold_link(3, 9, None),))
    (linked,) = open_linker(LinkerSettings(kg=str(kg)), small_graph).disambiguate([text])
    assert linked.links[0].entity == "Q64"
    assert "like 'Berlin'" in linked.links[0].candidates[0].reason


def test_a_minimum_prior_drops_candidates(kg: Path, small_graph: KnowledgeGraph) -> None:
    linker = open_linker(LinkerSettings(kg=str(kg), min_prior=0.5), small_graph)
    (linked,) = linker.link(["Paris"])
    assert [c.entity for c in linked.links[0].candidates] == ["Q90"]


def test_a_fitted_decision(kg: Path, small_graph: KnowledgeGraph, tmp_path: Path) -> None:
    scorer, decision = repr(PriorScorer()), Decision(nil_below=1.0)
    fitted = FittedDecision(decision, small_graph.content_hash, scorer, "x", 1)
    save_decision(fitted, tmp_path / "decision.json")
    result = run("Paris", "--kg", kg, "--decision", tmp_path / "decision.json", "--explain")
    assert result.exit_code == 0, result.output
    assert "no candidate is sure enough" in result.output
    assert "is calibrated" in result.output


def test_keys_follow_what_folders_hold(
    kg: Path, small_graph: KnowledgeGraph, index: Path, tmp_path: Path
) -> None:
    without = linker_key(LinkerSettings(kg=str(kg)), small_graph)
    assert without == linker_key(LinkerSettings(kg="elsewhere"), small_graph)
    with_it = linker_key(LinkerSettings(kg=str(kg), index=str(index)), small_graph)
    assert with_it != without
    moved = tmp_path / "moved"
    index.rename(moved)
    assert linker_key(LinkerSettings(kg=str(kg), index=str(moved)), small_graph) == with_it
    moved.rename(index)


def test_recall_of_names(small_graph: KnowledgeGraph) -> None:
    n_names, recall = name_recall(NameIndex.build(small_graph), small_graph)
    assert n_names == 13
    assert recall[5] == 1.0
    assert recall[1] == pytest.approx(12 / 13), "two are called Paris"


def test_identifiers_stand_in_for_names(tmp_path: Path) -> None:
    nameless = graph_from_records(
        [Triple("new_york", "in", "usa"), Text("usa", TextKind.DESCRIPTION, "a country", "en")]
    )
    named = by_identifiers(nameless)
    assert [named.label(i) for i in range(named.n_entities)] == ["new york", "usa"]
    assert named.description(1) == "a country"
    assert by_identifiers(named) is named
    named.save(tmp_path / "named")
    again = KnowledgeGraph.open(tmp_path / "named", verify=True)
    assert again.content_hash == named.content_hash
    assert again.label(0) == "new york"


def test_linking_loads_no_torch(kg: Path) -> None:
    code = (
        "import sys; from kept.apps.cli import app; "
        f"app(['link', 'In Paris.', '--kg', {str(kg)!r}], standalone_mode=False); "
        "sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "1 link in" in done.stdout


def test_score_and_corrupt_are_there(kg: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text(TEXT, encoding="utf-8")
    assert run(tmp_path / "notes.txt", "--kg", kg, "-o", tmp_path / "a.jsonl").exit_code == 0
    corrupted = run("corrupt", tmp_path / "a.jsonl", "-o", tmp_path / "b.jsonl", "--drop", "0.5")
    assert corrupted.exit_code == 0, corrupted.output
    texts = list(read_jsonl(tmp_path / "b.jsonl", DamageReport()))
    assert len(texts[0].links) < 3
    scored = run("score", tmp_path / "a.jsonl", tmp_path / "b.jsonl")
    assert scored.exit_code == 0, scored.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["index", "KG"], "give -o INDEX"),
        (["index", "KG", "-o", "x", "--case", "loud"], "--case is 'loud'"),
        (["index", "KG", "--add-to", "INDEX", "--fuzzy"], "--add-to keeps"),
        (["index", "KG", "--add-to", "KG"], "is not a link index, but 'kept graph'"),
        (["index", "KG", "--add-to", "nowhere"], "nowhere does not exist"),
        (["Paris", "--kg", "KG", "--index", "INDEX", "--case", "insensitive"], "with case 'smart'"),
        (["Paris", "--kg", "KG", "--index", "INDEX", "--language", "fr"], "with languages None"),
        (["Paris", "--kg", "KG", "--method", "trained"], "needs a model"),
        (["Paris", "--kg", "KG", "--model", "KG"], "needs a model"),
    ],
)
def test_wrong_indexes_are_told(kg: Path, index: Path, arguments: list[str], message: str) -> None:
    places = {"KG": str(kg), "INDEX": str(index)}
    result = run(*(places.get(argument, argument) for argument in arguments))
    assert result.exit_code == 1, result.output
    assert message in result.output


def test_a_threshold_with_a_fitted_one() -> None:
    with pytest.raises(LinkingError, match="its own threshold"):
        LinkerSettings(kg="kg", decision="d.json", nil_below=0.5)
    with pytest.raises(LinkingError, match="no nil_below and no nil_from"):
        LinkerSettings(kg="kg", decision="d.json", nil_from=0.5)
    with pytest.raises(LinkingError, match="nil_from is about NIL"):
        LinkerSettings(kg="kg", nil_from=0.5)
