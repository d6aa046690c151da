"""The study of running text: its texts, its decisions, a run in small; the private graph."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from entity_linking.annotations import gold_link
from entity_linking.mentions import Link, LinkedText, Mention
from entity_linking.scoring.elevant import Label, LabelledText
from experiments.entity_linking import capitals
from experiments.entity_linking.config import LinkingStudy
from experiments.entity_linking.end_to_end import confidence, medical
from experiments.entity_linking.end_to_end.parts import EndToEndStudy, Parts, world_file
from experiments.entity_linking.end_to_end.rows import BEST, ROWS, EndToEndTrial
from experiments.entity_linking.end_to_end.tables import expected_errors, to_markdown
from experiments.entity_linking.end_to_end.tagging import read_texts
from experiments.entity_linking.end_to_end.trial import score_all
from experiments.entity_linking.inputs.benchmarks import FILES
from experiments.entity_linking.stages import LinkingStages
from tests.experiments.tiny_linking_data import PLANTED, write_root
from tests.kept.training.tiny_pretraining import write_host

PLAN = (
    Path(__file__).parents[2] / "experiments" / "entity_linking" / "end_to_end" / "end_to_end.yaml"
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_root(tmp_path_factory.mktemp("data"))
    documents = [
        {"sents": [text.split()], "vertexSet": [[{"pos": [0, 1], "type": "LOC", "sent_id": 0}]]}
        for text in ["Arden fell .", "Holm rose .", "Garth is old .", PLANTED]
    ]
    path = folder / "re" / "redocred"
    path.mkdir(parents=True)
    (path / "dev_revised.json.gz").write_bytes(gzip.compress(json.dumps(documents).encode()))
    posts = "in O\nCalder B-location\n\nElsby B-location\nis O\n\n"
    (folder / "typing/wnut17/wnut17train.conll.gz").write_bytes(gzip.compress(posts.encode()))
    names = [6, 9, 11, 14, 15, 16, 18]  # pieces of the host: "lies", "flows", "capital", ...
    articles = [(i % 7, f"{5 + i % 5}\t{7 + i % 6}") for i in range(35)]
    for name, lines in {
        "wiki_token": [f"1\t3\t{names[k]}\t{words}\n" for k, words in articles],
        "wiki_entity": [f"1\t3\tQ{1 + k}\t#UNK#\t#UNK#\n" for k, _ in articles],
    }.items():
        path = folder / "text/ernie_pretrain_sample" / f"{name}.gz"
        path.write_bytes(gzip.compress("".join(lines).encode()))
    return folder


def test_the_tagger_never_sees_a_benchmark(root: Path) -> None:
    planted = {"kore50": [PLANTED]}
    texts = read_texts(root, planted, overlap=8, apart={"Re-DocRED": (0, 2)}, steps={"WNUT17": 2})
    assert texts.left_out == {"Re-DocRED": 1, "Wikigold": 0, "WNUT17": 0}
    assert [text.text for text in texts.train["Re-DocRED"]] == ["Holm rose . "]
    assert [text.text for text in texts.held_out["Re-DocRED"]] == [
        "Arden fell . ",
        "Garth is old . ",
    ]
    assert len(texts.train["WNUT17"]) == 1


def test_a_run_in_small(root: Path, tmp_path: Path) -> None:
    committed = yaml.safe_load(PLAN.read_text())
    plan = EndToEndStudy.model_validate(
        {
            **committed, "host": str(write_host(tmp_path / "host")), "n_layers": 1,
            "held_out": {"Re-DocRED": [0, 2], "Wikigold": [0, 2]}, "steps": {}, "removed": [0.5],
        }
    )  # fmt: skip
    world = yaml.safe_load(world_file(plan, PLAN).read_text())
    world["texts"] |= {"shares": {"counts": 0.3, "train": 0.3, "held_out": 0.4}}
    world["texts"] |= {"most_sentences": 1, "hidden": 0.2}
    world |= {"reranker": {"epochs": 2}, "hidden_tried": [2], "n_resamples": 100}
    world["dense"] |= {"host": plan.host}
    study = LinkingStudy.model_validate(world)

    def trial(announce: Callable[[str], None]) -> EndToEndTrial:
        return EndToEndTrial(LinkingStages(root, study, tmp_path / "run", announce), plan)

    results = score_all(trial(lambda _: None))
    for name in FILES:
        assert set(results[name]["rows"]) == set(ROWS)
        for row in ROWS:
            assert 0 <= results[name]["rows"][row]["required"]["estimate"] <= 1
    removed = results["kore50, best"]["open world"]
    assert removed["0"]["removed"] == 0
    assert removed["0.5"]["removed"] > 0
    page = to_markdown(results, study.published)
    assert page.count(f"| {BEST} |") >= 4
    again: list[str] = []
    assert score_all(trial(again.append)) == results
    assert not again, "a part was made twice"
    of_confidence = confidence.score_all(trial(again.append))
    for row in confidence.ROWS:
        for name in FILES:
            measured, committed = of_confidence["rows"][row][name], results[name]["rows"][row]
            assert measured["required F1"] == committed["required"]["estimate"]
    page = confidence.to_markdown(of_confidence, study.published)
    assert page.count("| oke-2016, held out |") >= 7
    assert "kore50, held out" in page
    assert {"facts", "articles"} <= set(of_confidence["kinds"])
    with_capitals = capitals.scores(trial(again.append).stages)
    for measured in with_capitals["kept link --capitals"].values():
        assert all(0 <= value <= 1 for value in measured.values())
    assert "| kept link --capitals | required F1 |" in capitals.to_markdown(with_capitals)


def test_training_knows_half_of_the_entities_by_name_alone(root: Path, tmp_path: Path) -> None:
    plan = EndToEndStudy.model_validate(yaml.safe_load(PLAN.read_text()))
    study = LinkingStudy.model_validate(yaml.safe_load(world_file(plan, PLAN).read_text()))
    parts = Parts(LinkingStages(root, study, tmp_path, lambda _: None), plan)
    whole, graph = parts.stages.world.graph, parts.graph_of_training
    name_only = [entity for entity in whole.entities if parts.is_bare(entity)]
    assert 0 < len(name_only) < whole.n_entities
    for entity in name_only:
        before, now = whole.entities.id(entity), graph.entities.id(entity)
        assert graph.label(now) == whole.label(before)
        assert not graph.description(now)
        assert now not in graph.triples[:, [0, 2]]
    assert not {entity for _, entity, _ in parts.surfaces_of_training} & set(name_only)


def test_terms_of_the_ontology() -> None:
    block = [
        "id: DOID:1", "name: heart failure", 'def: "A \\"weak\\" heart that is_a pump." [url:x]',
        'synonym: "cardiac failure" EXACT []', 'synonym: "HF" EXACT OMO:0003012 []',
        'synonym: "broken heart" RELATED []', "is_a: DOID:2 ! disease",
    ]  # fmt: skip
    term = medical._term(block)
    assert term == medical.Disease(
        "DOID:1", "heart failure", 'A "weak" heart that is a pump.', ("cardiac failure",), ("HF",),
        ("DOID:2",),
    )  # fmt: skip


def test_calibration_is_that_of_each_benchmark() -> None:
    """One is .2 too sure and one .2 too unsure: pooled they would look right."""
    links = {"kore50": [True] * 4 + [False] * 6, "oke-2016": [True] * 8 + [False] * 2}
    results = {
        name: {"confidences": {"row": [(0.6, right, True) for right in is_right]}}
        for name, is_right in links.items()
    }
    errors = expected_errors(results, "row")
    assert errors == {name: pytest.approx(0.2) for name in links}
    assert list(expected_errors({"kore50": results["kore50"]}, "row")) == ["kore50"]


def test_names_called_nil_and_confidence_where_gold_marks() -> None:
    labels = (Label((0, 3), None), Label((4, 8), "Q1"), Label((9, 12), "Q2", is_optional=True))
    gold = [LabelledText("Ulm Bonn Lea Kai", labels)]
    linked = [
        LinkedText(
            gold[0].text,
            tuple(
                Link(Mention(*span), (), entity, sure)
                for span, entity, sure in (
                    ((0, 3), None, 0.9),
                    ((4, 8), "Q1", 0.8),
                    ((9, 12), None, 0.7),
                    ((13, 16), "Q3", 0.6),
                )
            ),
        )
    ]
    assert confidence.nil_scores(gold, linked) == (2, 0.5)
    marks = [LinkedText(gold[0].text, tuple(gold_link(*k.span, k.entity) for k in labels))]
    marked = confidence.calibration_of(marks, linked)
    assert (marked["links"], marked["right"], marked["sure"]) == (1, 1.0, pytest.approx(0.8))
    assert marked["ECE"] == pytest.approx(0.2)
    every = confidence.calibration_of(marks, linked, marked=False)
    assert (every["links"], every["right"]) == (2, 0.5)
    assert confidence.calibration_of(marks, [LinkedText(gold[0].text, ())]) == {"links": 0}
