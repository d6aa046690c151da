"""Dear scorers are asked of few mentions, and what they would change is asked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entity_linking import LinkedText, LinkingError
from entity_linking.decision import Decision
from entity_linking.detection import DetectedText, EndToEnd
from entity_linking.errors import LinkIndexError
from entity_linking.explain import explain
from entity_linking.parts import Candidates, Scorer, Scores
from entity_linking.pipeline import Pipeline
from entity_linking.scorers.asking import (
    FEWEST_HELD_OUT,
    MARGIN,
    Asking,
    answers,
    fitted,
    sureness,
)
from entity_linking.scorers.candidate_rows import CandidateRows
from entity_linking.scorers.features import PriorScorer
from entity_linking.scorers.rerank_parts import RerankSettings
from entity_linking.scorers.rerank_table import tabulate
from entity_linking.scorers.reranker import Reranker, relative_logits
from kg_loaders.disk import seals
from tests.flips import forge
from tests.rerank_worlds import flat, linked

QUICK = RerankSettings(epochs=25, learning_rate=0.05, mentions_per_step=32)


class OracleScorer:
    """A dear `Scorer` that reads the answer in the text, and counts what it was asked."""

    def __init__(self) -> None:
        self.n_asked = 0

    def scores(self, texts: Sequence[LinkedText]) -> list[list[Scores]]:
        links = [link for text in texts for link in text.links]
        self.n_asked += len(links)
        return [
            [
                np.array([3.0 * (c.entity == text.text.split()[-1]) for c in link.candidates])
                for link in text.links
            ]
            for text in texts
        ]


def world(n: int, seed: int) -> list[LinkedText]:
    """Half of the mentions have a clear prior, which is right; of the others the text says it."""
    rng = np.random.default_rng(seed)
    texts = []
    for i in range(n):
        gold = int(rng.integers(3))
        priors = rng.uniform(0.3, 0.34, 3)
        if i % 2:
            priors = np.where(np.arange(3) == gold, 0.9, rng.uniform(0.01, 0.02, 3))
        candidates = [(f"Q{j}", float(prior)) for j, prior in enumerate(priors)]
        says = f"Q{gold}"
        second = ("Rome", [("Q8", 0.9), ("Q9", 0.02)], "Q8")
        texts.append(linked(f"Paris and Rome {i} {says}", ("Paris", candidates, says), second))
    return texts


def fit(oracle: OracleScorer, n_held_out: int = 120) -> Reranker:
    scorers: dict[str, Scorer] = {"oracle": oracle, "prior": PriorScorer()}
    return Reranker.fit(
        scorers, world(200, 0), world(n_held_out, 1), settings=QUICK, expensive=["oracle"]
    )  # fmt: skip


@pytest.fixture(scope="module")
def model() -> Reranker:
    return fit(OracleScorer())


def with_counter(model: Reranker, folder: Path) -> tuple[Reranker, OracleScorer]:
    report = OracleScorer()
    model.save(folder, force=True)
    return Reranker.open(folder, {"prior": PriorScorer(), "oracle": report}), report


def test_few_are_asked_and_nothing_is_lost(model: Reranker, tmp_path: Path) -> None:
    asking, report = with_counter(model, tmp_path / "m")
    texts = world(200, 2)
    assert asking.accuracy(texts) == asking.everywhere().accuracy(texts) == 1.0
    report.n_asked = 0
    asking.scores(texts)
    assert 100 <= report.n_asked < 200, "of 400 mentions 100 are open"
    assert model.asking is not None
    assert model.asking.missed == 0.0
    assert 0.1 < model.asking.changeable < model.asking.asked < 0.5
    output = str(model.asking)
    assert output.startswith("oracle used where the best answer without it has at most 0.")
    report.n_asked = 0
    asking.everywhere().scores(texts)
    assert report.n_asked == 400


def test_who_is_asked_has_the_scores_of_asking_everywhere(model: Reranker) -> None:
    texts = world(40, 3)
    mentions = [each for text in model.first_stage(texts) for each in text]
    here = [scores for text in model.scores(texts) for scores in text]
    everywhere = [scores for text in model.everywhere().scores(texts) for scores in text]
    same = [np.array_equal(a, b) for a, b in zip(here, everywhere, strict=True)]
    assert same == [each.is_asked for each in mentions]
    assert model.asking is not None
    assert all((each.sure <= model.asking.most_sure) == each.is_asked for each in mentions)
    plain = Reranker.fit({"prior": PriorScorer()}, texts, texts, settings=QUICK)
    assert plain.everywhere() is plain
    with pytest.raises(LinkingError, match="asks every scorer about every mention"):
        plain.first_stage(texts)


def test_batch_of_n_is_n_batches_of_one(model: Reranker) -> None:
    texts = [*world(30, 4), linked("none here"), linked("none", ("none", [], None))]
    assert flat(model.scores(texts)) == [flat(model.scores([text]))[0] for text in texts]
    assert model.scores([]) == []


def test_training_and_linking_read_the_same_features() -> None:
    """What a dear scorer adds about some of the mentions is what it adds about all."""
    both: dict[str, Scorer] = {"prior": PriorScorer(), "oracle": OracleScorer()}
    trained = tabulate(both, world(30, 5))
    is_asked_everywhere = np.arange(trained.rows.n_mentions) % 3 == 0
    linking = (
        tabulate({"prior": PriorScorer()}, world(30, 5))
        .of(is_asked_everywhere)
        .with_scorers({"oracle": OracleScorer()})
    )
    assert linking.scorers == trained.scorers == ("prior", "oracle")
    np.testing.assert_array_equal(linking.candidates, trained.of(is_asked_everywhere).candidates)
    np.testing.assert_array_equal(linking.mentions, trained.of(is_asked_everywhere).mentions)


def test_equal_texts_and_settings_give_equal_weights(model: Reranker, tmp_path: Path) -> None:
    again = fit(OracleScorer())
    for name, each in (("a", model), ("b", again)):
        each.save(tmp_path / name)
    for file in ("manifest.json", "weights.safetensors"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_the_first_stage_is_the_model_without_dear_scorers(model: Reranker) -> None:
    texts = world(20, 6)
    plain = Reranker.fit({"prior": PriorScorer()}, world(200, 0), world(120, 1), settings=QUICK)
    mentions = [each for text in model.first_stage(texts) for each in text]
    ours = [scores for text in model.scores(texts) for scores in text]
    theirs = [scores for text in plain.scores(texts) for scores in text]
    kept = [i for i, each in enumerate(mentions) if not each.is_asked]
    assert kept
    assert all(np.array_equal(ours[i], theirs[i]) for i in kept)


def test_with_few_held_out_mentions_all_are_asked() -> None:
    few = fit(OracleScorer(), n_held_out=FEWEST_HELD_OUT // 2 - 1)
    assert few.asking is not None
    assert few.asking.most_sure == few.asking.asked == 1.0


def test_shares_and_answers_against_the_decision() -> None:
    rng = np.random.default_rng(7)
    texts = [*world(10, 7), linked("none", ("none", [], None))]
    rows = CandidateRows.of(texts)
    logits = rng.normal(size=len(rows)) * 3
    decision = Decision(nil_score=0.0)
    split = [of_mention for text in rows.split(logits) for of_mention in text]
    for logits_of, sure, answer in zip(
        split, sureness(rows, logits), answers(rows, logits), strict=True
    ):
        if not len(logits_of):
            assert (sure, answer) == (1.0, -1)
            continue
        assert sure == pytest.approx(
            max(decision.confidence(logits_of), decision.nil_share(logits_of))
        )
        assert answer == (-1 if decision.nil_wins(logits_of) else int(logits_of.argmax()))


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.01, 0.05, 0.3]))
def test_the_least_asking_that_misses_no_more(seed: int, most: float) -> None:
    """With the margin taken off no more is missed than may be, and with any less more is."""
    rng = np.random.default_rng(seed)
    rows = CandidateRows.of(world(60, seed))
    first, full = rng.normal(size=(2, len(rows))) * 2
    actual = fitted(rows, first, full, ["oracle"], most)
    sure = sureness(rows, first)
    differs = answers(rows, first) != answers(rows, full)

    def missed(to: float) -> float:
        return float((differs & (sure > to)).mean())

    assert actual.changeable == differs.mean()
    assert actual.asked == (sure <= actual.most_sure).mean()
    assert missed(actual.most_sure) == actual.missed <= most
    if actual.most_sure:
        doubt = (1 - actual.most_sure) / MARGIN
        assert missed(1 - doubt + 1e-9) <= most < missed(1 - doubt - 1e-9)


def test_nothing_that_changes_is_nothing_that_is_asked() -> None:
    rows = CandidateRows.of(world(60, 0))
    logits = np.random.default_rng(0).normal(size=len(rows))
    actual = fitted(rows, logits, logits, ["oracle"], 0.0)
    assert (actual.most_sure, actual.asked, actual.changeable) == (0.0, 0.0, 0.0)


def test_what_is_asked_must_be_there() -> None:
    texts = world(5, 0)
    both: dict[str, Scorer] = {"prior": PriorScorer(), "oracle": OracleScorer()}
    for scorers, expensive in ((both, ["others"]), ({"oracle": OracleScorer()}, ["oracle"])):
        with pytest.raises(LinkingError, match="at least one cheap scorer"):
            Reranker.fit(scorers, texts, texts, expensive=expensive)
    with pytest.raises(LinkingError, match="asks no scorer"):
        Asking((), 0.5, 0.1, 0.1, 0.1)


def test_saved_and_opened(model: Reranker, tmp_path: Path) -> None:
    opened, _ = with_counter(model, tmp_path / "m")
    assert (opened.asking, opened.record) == (model.asking, model.record)
    assert repr(opened) == repr(model)
    texts = world(20, 8)
    assert flat(opened.scores(texts)) == flat(model.scores(texts))
    assert Reranker.scorer_names(tmp_path / "m") == ("prior", "oracle")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"asking.dear": ["prior"]}, "but they are not the last of its scorers"),
        ({"asking.dear": ["prior", "oracle"]}, "but they are not the last of its scorers"),
        ({"asking.dear": []}, "asks no scorer"),
        ({"asking.most_sure": 7.0}, "not between 0 and 1"),
        ({"asking.most_sure": "all"}, "cannot be read"),
    ],
)
def test_a_forged_folder_is_refused(
    model: Reranker, tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    model.save(tmp_path / "m")
    forge(tmp_path / "m", changes)
    with pytest.raises(LinkIndexError, match=message):
        Reranker.open(tmp_path / "m", {"prior": PriorScorer(), "oracle": OracleScorer()})


def test_a_folder_that_lacks_the_first_stage_is_refused(model: Reranker, tmp_path: Path) -> None:
    """Weights of a plain re-ranker beside the manifest of one that asks."""
    scorers: dict[str, Scorer] = {"prior": PriorScorer(), "oracle": OracleScorer()}
    Reranker.fit(scorers, world(20, 0), world(20, 1), settings=QUICK).save(tmp_path / "plain")
    assert Reranker.open(tmp_path / "plain", scorers).asking is None
    model.save(tmp_path / "m")
    about = json.loads((tmp_path / "m" / "manifest.json").read_text())["asking"]
    forge(tmp_path / "plain", {"asking": about})
    with pytest.raises(LinkIndexError, match=r"does not hold 10 weights first\.candidate\.linear"):
        Reranker.open(tmp_path / "plain", scorers)


def test_a_folder_from_before_asks_everywhere(tmp_path: Path) -> None:
    """Its manifest says nothing of asking."""
    scorers: dict[str, Scorer] = {"prior": PriorScorer(), "oracle": OracleScorer()}
    before = Reranker.fit(scorers, world(20, 0), world(20, 1), settings=QUICK)
    before.save(tmp_path / "m")
    manifest = tmp_path / "m" / "manifest.json"
    values = json.loads(manifest.read_text())
    assert values.pop("asking") is None
    values["seal"] = seals.seal_of(values)
    manifest.write_bytes(seals.rendered(values))
    opened = Reranker.open(tmp_path / "m", scorers)
    assert opened.asking is None
    assert flat(opened.scores(world(5, 2))) == flat(before.scores(world(5, 2)))


# ---- why ---------------------------------------------------------------------
class Mentions:
    """A `Linker` that finds "Paris" and "Rome"."""

    def link(self, texts: Sequence[str]) -> list[LinkedText]:
        return [
            linked(text, *((name, [], None) for name in ("Paris", "Rome") if name in text))
            for text in texts
        ]


class Source:
    """Candidates of which "Rome" has a clear one."""

    def candidates(self, texts: Sequence[LinkedText]) -> list[list[Candidates]]:
        unsure = linked("Paris", ("Paris", [("Q0", 0.32), ("Q1", 0.31), ("Q2", 0.33)], None))
        sure = linked("Rome", ("Rome", [("Q8", 0.9), ("Q9", 0.02)], None))
        known = {each.text: each.links[0].candidates for each in (unsure, sure)}
        return [
            [known[text.text[link.mention.start : link.mention.end]] for link in text.links]
            for text in texts
        ]


class Everything:
    """A `Detector` of the same mentions."""

    def detect(self, texts: Sequence[str]) -> list[DetectedText]:
        return [
            DetectedText(each, (1.0,) * len(each.links), ("",) * len(each.links))
            for each in Mentions().link(texts)
        ]


@pytest.mark.parametrize("ends", [False, True])
def test_why_says_whether_dear_scorers_were_asked(model: Reranker, ends: bool) -> None:
    pipeline = Pipeline(Mentions(), Source(), model, Decision(nil_score=0.0))
    linker = EndToEnd(Everything(), pipeline) if ends else pipeline
    texts = linker.link(["Paris and Rome 1 Q1"])
    ((paris, rome),) = explain(linker, texts)
    assert model.asking is not None
    to = f"(used up to {model.asking.most_sure:.3f})"
    assert paris[0].candidate.entity == "Q1"
    assert "oracle used: without it the best answer has 0." in paris[0].reason
    assert paris[0].reason.endswith(to)
    assert "oracle not used: without it the best answer has 0.99" in rome[0].reason
    alone = replace(texts[0], links=texts[0].links[1:])
    assert explain(linker, [alone])[0][0] == rome, "the mention left out is read again"


def test_why_of_given_mentions() -> None:
    report = fit(OracleScorer())
    pipeline = Pipeline(Mentions(), Source(), report, Decision(nil_score=0.0))
    given_text = linked("Rome, Paris and Rome", ("Paris", [], None))
    (text,) = pipeline.disambiguate([given_text])
    ((paris,),) = explain(pipeline, [text])
    assert "oracle used: without" in paris[0].reason


def test_relative_logits_of_part_of_a_table(model: Reranker) -> None:
    """Rows do not depend on how many stand beside them, so that few may be asked."""
    table = tabulate({"prior": PriorScorer()}, world(30, 9))
    plain = Reranker.fit({"prior": PriorScorer()}, world(50, 0), world(30, 1), settings=QUICK)
    logits = relative_logits(plain._weights, table)
    chosen = np.arange(table.rows.n_mentions) % 2 == 0
    mine = chosen[table.rows.mention_of]
    assert np.array_equal(relative_logits(plain._weights, table.of(chosen)), logits[mine])


def test_the_threshold_itself_is_asked_and_a_mention_without_candidates_is_not() -> None:
    texts = [
        linked("a b c", ("a", [("Q1", 0.5)], None), ("b", [], None), ("c", [("Q2", 0.5)], None))
    ]
    rows = CandidateRows.of(texts)
    asking = Asking(("d",), 0.75, asked=0.5, changeable=0.1, missed=0.0)
    above = float(np.nextafter(0.75, 1))
    assert asking.is_asked(np.array([0.75, 0.1, above]), rows).tolist() == [True, False, False]
    assert asking.is_asked(np.array([above, 1.0, 0.0]), rows).tolist() == [False, False, True]


@pytest.mark.parametrize("n_mentions", [FEWEST_HELD_OUT - 1, FEWEST_HELD_OUT])
def test_the_fewest_held_out_mentions_that_a_threshold_is_fitted_on(n_mentions: int) -> None:
    """Nothing changes when all are asked: with enough mentions nobody is, with fewer all are."""
    texts = [linked("a", ("a", [("Q1", 0.5), ("Q2", 0.4)], "Q1")) for _ in range(n_mentions)]
    rows = CandidateRows.of(texts)
    logits = np.tile([2.0, 1.0], n_mentions)
    asking = fitted(rows, logits, logits, ("d",), 0.0)
    assert asking.most_sure == (0.0 if n_mentions == FEWEST_HELD_OUT else 1.0)


def test_one_change_more_than_may_be_missed_sets_the_threshold() -> None:
    texts = [linked("a", ("a", [("Q1", 0.5), ("Q2", 0.4)], "Q1")) for _ in range(FEWEST_HELD_OUT)]
    rows = CandidateRows.of(texts)
    first = np.tile([2.0, 1.0], FEWEST_HELD_OUT)
    full = first.copy()
    full[:2] = full[1::-1]
    sure = float(sureness(rows, first)[0])
    one = 1 / FEWEST_HELD_OUT
    assert fitted(rows, first, full, ("d",), 0.0).most_sure == 1 - MARGIN * (1 - sure)
    assert fitted(rows, first, full, ("d",), one).most_sure == 0.0
