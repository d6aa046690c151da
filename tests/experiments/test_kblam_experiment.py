"""The committed studies of KBLaM in small: aligned, trained, every cell, nothing done twice."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from experiments.kblam.trial import (
    LOG,
    Decoder,
    KBLaMStudy,
    KBLaMTrial,
    all_cells,
    draw,
    precision,
    share,
    to_json,
    to_markdown,
)
from kept.decoders.kblam.alignment import AlignmentPlan, align, head_shares, read_states
from kept.decoders.kblam.config import KBLaMConfig
from kept.decoders.kblam.knowledge_base import Answer, KnowledgeBase, facts_of_graph
from kept.decoders.kblam.learner import Learner
from kept.decoders.kblam.model import KBLaM
from kept.decoders.kblam.texts import ReadTexts, Texts, drawn_texts, read_texts
from kept.decoders.kblam.wording import (
    IN_CONTEXT_OR_REFUSE,
    TEMPLATES,
    UNKNOWN,
    Dialogue,
    Fact,
    is_refusal,
)
from kept.lab.questions.worlds import VALUES, private_world
from kept.training.log import read_log
from tests.kept.tiny_chat import WordVectors, chat_tokenizer
from tests.kept.tiny_decoders import tiny_decoder

CONFIG = Path(__file__).parents[2] / "experiments" / "kblam" / "smollm2.yaml"


def small_study() -> KBLaMStudy:
    committed = KBLaMStudy.read(CONFIG)
    alignment = committed.alignment.model_copy(
        update={"n_steps": 50, "batch_size": 8, "n_facts": 16}
    )
    training = committed.training.model_copy(
        update={"n_steps": 4, "batch_size": 4, "n_refusals": 1, "n_context": 12, "save_every": 2}
    )
    return committed.model_copy(
        update={
            "n_train": 8, "n_test": 12, "n_texts": 16, "first": 1, "every": 1, "last": 2,
            "top_k": 6,
            "alignment": alignment, "training": training, "sizes": [4, 12], "n_questions": 3,
            "words_of": 8, "seeds": [0, 1], "n_words": [0, 1, 5],
        }
    )  # fmt: skip


def decoder_of(study: KBLaMStudy) -> Decoder:
    world = private_world(study.world_seed, n_train=study.n_train, n_test=study.n_test)
    facts = [*facts_of_graph(world.train), *facts_of_graph(world.test)]
    texts = [Dialogue.about(f, i % len(TEMPLATES)).text for i, f in enumerate(facts)]
    tokenizer = chat_tokenizer([*texts, f" {UNKNOWN}.", IN_CONTEXT_OR_REFUSE])
    host = tiny_decoder("llama", vocab_size=len(tokenizer), max_position_embeddings=512)
    return Decoder(host, tokenizer)


def trial_of(folder: Path, study: KBLaMStudy, seed: int = 0) -> KBLaMTrial:
    return KBLaMTrial(study, decoder_of(study), WordVectors(), folder, seed)


@dataclasses.dataclass(frozen=True, eq=False)
class Parts:
    """What alignment and training need, around one host."""

    trial: KBLaMTrial
    base: KnowledgeBase
    texts: Texts

    @classmethod
    def of(cls, folder: Path = Path()) -> Parts:
        trial = trial_of(folder, small_study())
        base = KnowledgeBase.of_graph(trial.world.train, WordVectors(), trial.words)
        return cls(trial, base, drawn_texts(base, trial.decoder.tokenizer, 16, 0))

    def model(self, **options: float) -> KBLaM:
        torch.manual_seed(0)
        config = {
            "vector_width": WordVectors.width, "value_width": self.trial.words.width, "first": 1,
            "every": 1, **options,
        }  # fmt: skip
        return KBLaM(self.trial.decoder.host, KBLaMConfig(**config))  # type: ignore[arg-type]

    def learner(self, model: KBLaM, **changes: float) -> Learner:
        plan = self.trial.study.training.model_copy(update=changes)
        return Learner(model, self.texts, self.read(model), self.base, plan, 0)

    def read(self, model: KBLaM) -> ReadTexts:
        return read_texts(model, self.texts)


def test_the_study_in_small(tmp_path: Path) -> None:
    study, lines = small_study(), list[str]()
    trials = [
        dataclasses.replace(trial_of(tmp_path / "run", study, seed), announce=lines.append)
        for seed in study.seeds
    ]
    cells = all_cells(trials)
    assert set(cells) == {
        "kblam-4", "kblam-12", "edited", "shuffled", "words-0", "words-1", "words-5",
        "off", "aligned",
    }  # fmt: skip
    assert {name for name, each in cells.items() if len(each) == 1} == {
        "words-0", "words-1", "words-5", "off"
    }  # fmt: skip
    assert cells["words-5"][0]["tokens"] > cells["words-1"][0]["tokens"]
    assert sum(cells["words-5"][0]["retrieved"]) >= sum(cells["words-1"][0]["retrieved"]) > 0
    for layer in (1, 2):
        first, five = (cells["kblam-12"][0][f"{n} {layer}"] for n in ("first", "in five"))
        assert len(first) == 3
        assert all(five[i] for i, hit in enumerate(first) if hit)
        assert all(0 <= share <= 1 for share in cells["kblam-12"][0][f"share {layer}"])
    log = json.loads((tmp_path / "run" / "seed-1" / LOG).read_text())
    assert log["steps"] == study.training.n_steps
    page = to_markdown(cells, "a command", [log, log])
    n_heads, n_sized, n_compared, n_layers = 6, 2, 7, 2
    assert page.count("\n| ") == n_heads + n_sized + n_compared + n_layers
    assert to_json(cells)["kblam-4"]["seeds"] == 2
    draw(cells, tmp_path / "results.png")
    assert (tmp_path / "results.png").stat().st_size > 1000
    n_lines = len(lines)
    again = [trial_of(tmp_path / "run", study, seed) for seed in study.seeds]
    assert all_cells([dataclasses.replace(each, announce=lines.append) for each in again]) == cells
    assert len(lines) == n_lines


@pytest.mark.parametrize(("seconds", "n_calls"), [(1e-9, 99), (1000.0, 2)])
def test_a_training_that_was_stopped_goes_on_to_the_same_weights(
    seconds: float, n_calls: int, tmp_path: Path
) -> None:
    """By its budget after a step, or as asked after two; with the optimiser where it was."""
    parts, ends = Parts.of(), []
    state = {name: value.clone() for name, value in parts.model().own_state().items()}
    for name, stops in (
        ("whole", [(1000.0, 99)]), ("stopped", [(seconds, n_calls), (1000.0, 99)])
    ):  # fmt: skip
        done = []
        for budget, most in stops:
            calls: list[int] = []
            model = parts.model()
            model.load_own_state(state)
            ended = parts.learner(model, cpu_seconds=budget).run(
                tmp_path / name,
                should_stop=lambda calls=calls, most=most: calls.append(1) or len(calls) >= most,
            )
            done.append(ended.step)
        ends.append((done, read_log(tmp_path / name / "log.jsonl"), model.own_state()))
    (_, whole, weights), (done, stopped, other) = ends
    assert done == [min(n_calls, 1) if seconds < 1 else 2, 4]
    assert [row["losses"] for row in whole] == [row["losses"] for row in stopped]
    assert len(whole) == 4
    assert all(torch.equal(value, other[name]) for name, value in weights.items())


def test_refused_questions_have_no_fact_and_others_have_theirs() -> None:
    parts = Parts.of()
    learner, tokenizer = parts.learner(parts.model()), parts.trial.decoder.tokenizer
    facts = parts.base.facts
    for step in range(6):
        batch = learner.batch(learner.sample(step))
        rows = batch.fact_rows.tolist()
        assert len(set(rows)) == len(rows)
        assert batch.prompt_mask is not None
        assert batch.right_facts is not None
        n_before = batch.prompt_mask.shape[1]
        for ids, right in zip(batch.input_ids, batch.right_facts.tolist(), strict=True):
            text = tokenizer.decode(ids)
            stated = [f for f in facts if f"The {f.relation} of {f.name} is" in text]
            assert len(stated) == 1
            assert (UNKNOWN in text) == (stated[0] not in [facts[row] for row in rows])
            assert (right == -1) == (UNKNOWN in text)
            assert right == -1 or facts[rows[right]] == stated[0]
            assert is_refusal(text) == (UNKNOWN in text)
        assert batch.seen.shape[1] == n_before + batch.input_ids.shape[1]
        assert torch.equal(batch.labels[:, 1:] >= 0, batch.node_mask[:, 1:])
        assert bool((batch.labels[:, 0] < 0).all())


def test_places_are_where_the_name_ends_and_where_the_value_is_written() -> None:
    parts = Parts.of()
    tokenizer = parts.trial.decoder.tokenizer
    for number, row in enumerate(parts.texts.rows.tolist()):
        fact, ids = parts.base.facts[row], parts.texts.ids[number]
        name, verb = (tokenizer.decode(ids[position]) for position in parts.texts.places[number])
        assert (fact.name.split()[1], "is") == (name.strip(), verb.strip())
        value = UNKNOWN if parts.texts.refused[number] else fact.value
        position = int(parts.texts.places[number, 1])
        assert tokenizer.decode(ids[position + 1 :]).strip().startswith(value)


def test_alignment_finds_the_right_fact(tmp_path: Path) -> None:
    parts = Parts.of()
    model = parts.model(scale=4.0)
    plan = AlignmentPlan(
        n_steps=200, batch_size=8, n_facts=16, mass=0.4, learning_rate=0.01, strength=0.2
    )
    read = read_states(model, parts.texts, parts.read(model), 0)

    def looked() -> tuple[float, float]:
        with torch.no_grad():
            keys = model.encoder(*parts.base.vectors).keys
            scores, mass = head_shares(
                model, read.states[:, :, :1], read.text_scores[:, :, :1], keys
            )
        best = scores[:, -1, 0].softmax(-1).sum(1).argmax(-1)
        return float((best == parts.texts.rows).float().mean()), float(mass.exp().mean())

    before, _ = looked()
    align(model, parts.texts, read, parts.base, plan, 0, tmp_path / "alignment")
    after, mass = looked()
    assert after > max(0.25, before + 0.2)
    assert mass == pytest.approx(0.4, abs=0.25)


def test_stored_states_are_those_of_the_model_itself() -> None:
    parts = Parts.of()
    model = parts.model(scale=4.0)
    read = read_states(model, parts.texts, parts.read(model), 0)
    texts = parts.texts
    ids, seen = (
        torch.cat([texts.prompts, texts.ids], 1),
        torch.cat([texts.prompt_mask, texts.mask], 1),
    )
    n_before = texts.prompts.shape[1]
    with torch.no_grad():
        states = [each[:, n_before:] for each in model.read(ids, seen, None).hidden_states]
        expected = model.host.model.layers[2].input_layernorm(states[2])
    rows = torch.arange(len(parts.texts))[:, None]
    at_places = expected[rows, parts.texts.places]
    close = {"rtol": 1e-2, "atol": 2e-3}  # keys of prompts are stored in halves
    torch.testing.assert_close(read.states[:, 1, :2], at_places, **close)
    lengths = states[2][rows, parts.texts.places].norm(dim=-1)
    torch.testing.assert_close(read.lengths[:, 1, :2], lengths, **close)


def test_the_world_is_private() -> None:
    world = private_world(3, n_train=20, n_test=30)
    train, test = (facts_of_graph(graph) for graph in (world.train, world.test))
    assert len(train) == 20 * len(VALUES)
    assert not {f.name for f in train} & {f.name for f in test}
    assert all(f.value in VALUES[f.relation] for f in [*train, *test])
    assert len(set(test)) == len(test)
    assert all(isinstance(f, Fact) for f in train)
    with pytest.raises(ValueError, match="names; ask for fewer"):
        private_world(0, n_train=4000, n_test=4000)
    with pytest.raises(ValueError, match="raise n_test"):
        trial_of(Path(), small_study()).graph(1000)


def test_shares_and_refusals_are_counted() -> None:
    cells = [
        {"exact": [True, False], "refused": [False, True], "refused missing": [True, True]},
        {"exact": [True, True], "refused": [False, False], "refused missing": [True, False]},
    ]
    assert share(cells, "exact").estimate == 0.75
    assert precision(cells) == 0.75
    assert precision([{"refused": [False], "refused missing": [False]}]) is None
    fact = Fact("Wexo", "sport", "golf")
    output = Dialogue.about(fact, 1, refused=True).text
    assert is_refusal(output)
    assert Answer("The sport of Wexo is golf.").value == "golf"
