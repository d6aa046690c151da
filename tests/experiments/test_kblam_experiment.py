"""The committed study of KBLaM in small: aligned, trained, every cell, nothing done twice."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from tiny_chat import WordVectors, chat_tokenizer
from tiny_decoders import tiny_decoder

from experiments.kblam.alignment import align, fact_shares, read_states
from experiments.kblam.study import Bench, KBLaMStudy, run
from experiments.kblam.tables import draw, to_markdown
from experiments.kblam.training import LOG, Learner
from experiments.kblam.world import VALUES, private_world
from kept.decoders.kblam import KBLaM, KBLaMConfig
from kept.decoders.kblam_text import CHATML, IN_CONTEXT_OR_REFUSE, REFUSAL, TEMPLATES, Fact
from kept.decoders.kblam_training import attention_loss
from kept.decoders.knowledge_base import KnowledgeBase, facts_of_graph

CONFIG = Path(__file__).parents[2] / "experiments" / "kblam" / "smollm2.yaml"
ATTENTION = CONFIG.with_name("attention.yaml")


def small_study() -> KBLaMStudy:
    committed = KBLaMStudy.read(CONFIG)
    alignment = committed.alignment.model_copy(
        update={"n_texts": 12, "n_steps": 50, "batch_size": 8, "n_facts": 16}
    )
    training = committed.training.model_copy(
        update={"n_steps": 4, "batch_size": 4, "n_refusals": 1, "n_context": 6, "save_every": 2}
    )
    return committed.model_copy(
        update={
            "n_train": 8, "n_test": 12, "every": 2, "alignment": alignment, "training": training,
            "sizes": [4, 12], "n_questions": 3, "words_of": 8,
        }
    )  # fmt: skip


def bench_of(folder: Path, study: KBLaMStudy) -> Bench:
    world = private_world(study.seed, n_train=study.n_train, n_test=study.n_test)
    facts = [*facts_of_graph(world.train), *facts_of_graph(world.test)]
    texts = [CHATML.dialogue(f.question(i % len(TEMPLATES)), f.answer) for i, f in enumerate(facts)]
    tokenizer = chat_tokenizer([*texts, REFUSAL, IN_CONTEXT_OR_REFUSE])
    host = tiny_decoder("llama", vocab_size=len(tokenizer), max_position_embeddings=512)
    return Bench(study, host, tokenizer, WordVectors(), folder)


def test_the_study_in_small(tmp_path: Path) -> None:
    study, told = small_study(), []
    bench = dataclasses.replace(bench_of(tmp_path / "run", study), announce=told.append)
    cells = run(bench)
    assert set(cells) == {
        "kblam-4", "kblam-12", "edited", "words-0", "words-1", "words-5", "off", "aligned"
    }  # fmt: skip
    assert cells["words-5"]["tokens"] > cells["words-1"]["tokens"] > cells["words-0"]["tokens"]
    assert cells["words-5"]["retrieved"] >= cells["words-1"]["retrieved"] > 0
    assert all(0 <= first <= five <= 1 for first, five in cells["kblam-4"]["layers"].values())
    assert cells["kblam-4"]["n"] == cells["kblam-4"]["n_missing"] == 3
    log = json.loads((tmp_path / "run" / LOG).read_text())
    assert len(log["losses"]) == study.training.n_steps
    page = to_markdown(cells, "a command", log)
    n_rules, n_heads, n_layers = 3, 3, 2
    assert page.count("\n| ") == n_rules + n_heads + 2 + 5 + n_layers
    draw(cells, tmp_path / "results.png")
    assert (tmp_path / "results.png").stat().st_size > 1000
    n_told = len(told)
    again = dataclasses.replace(bench_of(tmp_path / "run", study), announce=told.append)
    assert run(again) == cells
    assert len(told) == n_told


def test_a_training_that_was_stopped_goes_on(tmp_path: Path) -> None:
    study = small_study()
    bench = bench_of(tmp_path, study)
    base = KnowledgeBase.of_graph(bench.world.train, WordVectors())
    config = KBLaMConfig(vector_width=WordVectors.width, every=2)
    first = KBLaM(bench.host, config)
    state = {name: value.clone() for name, value in first.own_state().items()}

    def run_in(folder: Path, *stops: float) -> tuple[list[float], dict[str, torch.Tensor]]:
        folder.mkdir()
        model = KBLaM(bench.host, config)
        model.load_own_state(state)
        for seconds in stops:
            plan = study.training.model_copy(update={"cpu_seconds": seconds})
            learner = Learner(model, bench.tokenizer, base, plan, 0)
            losses = learner.run(folder, lambda text: None)
        return losses, model.own_state()

    whole, weights = run_in(tmp_path / "whole", 1000.0)
    stopped, other = run_in(tmp_path / "stopped", 1e-9, 1000.0)
    assert whole == stopped
    assert len(whole) == 4
    assert all(torch.equal(value, other[name]) for name, value in weights.items())


def test_refused_questions_have_no_fact_and_others_have_theirs(tmp_path: Path) -> None:
    study = small_study()
    bench = bench_of(tmp_path, study)
    base = KnowledgeBase.of_graph(bench.world.train, WordVectors())
    model = KBLaM(bench.host, KBLaMConfig(vector_width=WordVectors.width))
    learner = Learner(model, bench.tokenizer, base, study.training, 0)
    for step in range(6):
        batch = learner.batch(step)
        for ids, rows in zip(batch.input_ids, batch.fact_rows.tolist(), strict=True):
            text = bench.tokenizer.decode(ids)
            facts = [base.facts[row] for row in rows]
            right = [f for f in facts if f.answer in text]
            asked = [f for f in base.facts if any(f.question(t) in text for t in range(16))]
            assert len(asked) == 1
            assert (REFUSAL in text) == (asked[0] not in facts)
            assert bool(right) == (asked[0] in facts)
            assert len(set(rows)) == len(rows)
        learnt = batch.labels[batch.labels >= 0]
        assert len(learnt) > 0


def test_alignment_finds_the_right_fact() -> None:
    study = small_study()
    bench = bench_of(Path(), study)
    base = KnowledgeBase.of_graph(bench.world.train, WordVectors())
    model = KBLaM(bench.host, KBLaMConfig(vector_width=WordVectors.width, every=2, scale=4.0))
    plan = study.alignment.model_copy(update={"n_steps": 150, "learning_rate": 0.01})
    read = read_states(model, bench.tokenizer, base, plan, 0)

    def right() -> float:
        with torch.no_grad():
            keys = model.encoder(*base.vectors).keys
            shares = fact_shares(model, read.states, read.text_scores, keys, 4.0)
        sums = (shares[:, -1] * read.answering[:, :, None]).sum(1)
        return float((sums.argmax(-1) == read.rows).float().mean())

    before = right()
    align(model, read, base, plan, 0, lambda text: None)
    after = right()
    assert after > max(0.5, before + 0.3)


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


def test_attention_is_learnt_where_the_plan_says_so(tmp_path: Path) -> None:
    study = KBLaMStudy.read(ATTENTION)
    assert study.training.attention > 0
    update = {
        "learning_rate": 0.02,
        "n_steps": 30,
        "batch_size": 4,
        "n_refusals": 1,
        "n_context": 6,
    }
    bench = bench_of(tmp_path, small_study())
    base = KnowledgeBase.of_graph(bench.world.train, WordVectors())
    shares = []
    for weight in (0.0, 5.0):
        torch.manual_seed(0)
        model = KBLaM(bench.host, KBLaMConfig(vector_width=WordVectors.width, every=2))
        plan = study.training.model_copy(update={**update, "attention": weight})
        learner = Learner(model, bench.tokenizer, base, plan, 0)
        (tmp_path / str(weight)).mkdir()
        learner.run(tmp_path / str(weight), lambda text: None)
        batch = learner.batch(0)
        facts = model.encoder(*base.vectors)[batch.fact_rows]
        with torch.no_grad():
            read = model.read(batch.input_ids, batch.node_mask, facts)
        predicting = torch.nn.functional.pad(batch.labels[:, 1:] != -100, (0, 1))
        shares.append(float(attention_loss(read.fact_weights, predicting, batch.right_facts)))
    assert shares[1] < shares[0] - 0.2, shares
