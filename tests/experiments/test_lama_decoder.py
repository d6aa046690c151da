"""LAMA on a decoder in small: questions, candidates, three rows, nothing asked twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.lama.decoder import (
    OTHERS,
    WEIGHTS,
    WITH_FACT,
    DecoderStudy,
    DecoderTrial,
    Questions,
    to_markdown,
)
from tests.kept.tiny_chat import chat_tokenizer
from tests.kept.tiny_decoders import tiny_decoder
from tests.kept.tiny_lama import FACTS, TEMPLATES, write_lama

CONFIG = Path(__file__).parents[2] / "experiments" / "lama" / "decoder.yaml"


def test_the_study_on_a_decoder_in_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = DecoderStudy.read(CONFIG).model_copy(update={"facts_per_relation": 2, "n_objects": 2})
    questions = Questions(write_lama(tmp_path / "lama"), study)
    assert len(questions.items) == 4
    assert questions.n_sentences == [2, 2, 2, 2]
    assert set(questions.objects) == {"P17", "P37"}
    names = [name for facts in FACTS.values() for fact in facts for name in (fact[1], fact[3])]
    texts = [each["template"].replace("[X]", "") for each in TEMPLATES]
    tokenizer = chat_tokenizer([*texts, *names, *(f" {name}" for name in names), " country P37 ."])
    host = tiny_decoder("llama", vocab_size=len(tokenizer), max_position_embeddings=64)
    trial = DecoderTrial(questions, host, tokenizer, tmp_path / "run")
    results = trial.results()
    assert list(results) == [WEIGHTS, OTHERS, WITH_FACT]
    assert [r.asked_facts for r in results.values()] == ["none", "hidden", "shown"]
    assert all(answer.asked_shown for answer in results[WITH_FACT].answers)
    assert not any(answer.asked_shown for answer in results[OTHERS].answers)
    page = to_markdown(questions, results, "the command")
    assert page.count("| all |") == 3
    assert "stated 2-4 times" in page
    monkeypatch.setattr("experiments.lama.decoder.probe", None)
    assert trial.results() == results
