"""Decoders by llama.cpp write and score what the same weights do in torch."""

from __future__ import annotations

import dataclasses
import stat
import tempfile
from pathlib import Path

import pytest
import torch

pytest.importorskip("xllamacpp", reason="pip install 'kept[llamacpp]'")

from kept.decoders import llama_cpp
from kept.decoders.asking import Asker, AskOptions
from kept.decoders.llama_cpp import N_SLOTS, LlamaCppDecoder, Written
from kept.errors import ConfigError, HostError
from tests.kept.decoders.test_asking import asker_of
from tests.kept.tiny_gguf import write_gguf

TOLERANCE = 0.02
"""Of log-probabilities: llama.cpp keeps keys and values in half precision."""


@pytest.fixture(scope="module")
def asker() -> Asker:
    return asker_of("llama", tie_word_embeddings=False)


@pytest.fixture(scope="module")
def file(asker: Asker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    write_gguf(asker.host, asker.tokenizer, path)
    return path


@pytest.fixture(scope="module")
def decoder(file: Path) -> LlamaCppDecoder:
    return LlamaCppDecoder(file, n_positions=128, n_threads=1)


def log_chances(asker: Asker, text: list[int], words: list[int]) -> list[float]:
    with torch.no_grad():
        scores = asker.host(torch.tensor([text + words])).logits[0].log_softmax(-1)
    return [float(scores[len(text) - 1 + i, word]) for i, word in enumerate(words)]


def texts_of(asker: Asker, n: int) -> list[list[int]]:
    sample = torch.Generator().manual_seed(0)
    n_words = asker.host.config.vocab_size
    return [torch.randint(3, n_words, (5 + i,), generator=sample).tolist() for i in range(n)]


def test_what_is_written_and_its_log_probabilities(asker: Asker, decoder: LlamaCppDecoder) -> None:
    texts = texts_of(asker, N_SLOTS + 3)
    written = decoder.write(texts, 4)
    assert len(written) == len(texts)
    for text, each in zip(texts, written, strict=True):
        assert 1 <= len(each.words) <= 4
        expected = log_chances(asker, text, list(each.words))
        assert list(each.log_chances) == pytest.approx(expected, abs=TOLERANCE)
        with torch.no_grad():
            best = asker.host(torch.tensor([[*text, *each.words[:-1]]])).logits[0, -1]
        assert float(best.max() - best[each.words[-1]]) < TOLERANCE


def test_log_probabilities_of_any_words(asker: Asker, decoder: LlamaCppDecoder) -> None:
    text, words = texts_of(asker, 1)[0], [7, 3, 9, 4]
    expected = log_chances(asker, text, words)
    assert decoder.log_chances(text, words) == pytest.approx(expected, abs=TOLERANCE)
    assert min(expected) < -2, "some word is improbable, and still gets its own number"
    known = Written((7, 3, 8), (-1.0, -2.0, -3.0))
    partly = decoder.log_chances(text, words, known)
    assert partly[:2] == [-1.0, -2.0]
    assert partly[2:] == pytest.approx(expected[2:], abs=TOLERANCE)


def test_questions_are_answered_as_in_torch(asker: Asker, decoder: LlamaCppDecoder) -> None:
    options = AskOptions(n_new=4, directions="head")
    ours = asker.ask("what is the job of Padre", options)
    theirs = dataclasses.replace(asker, host=decoder).ask("what is the job of Padre", options)
    assert theirs.answer == ours.answer
    assert theirs.probability == pytest.approx(ours.probability, rel=TOLERANCE)
    assert theirs.without_facts == ours.without_facts
    assert theirs.n_nodes == ours.n_nodes
    by_row = {each.row: each for each in ours.facts}
    assert len(by_row) == 3
    for each in theirs.facts:
        assert each.without == by_row[each.row].without
        assert each.change == pytest.approx(by_row[each.row].change, abs=2 * TOLERANCE)


def test_facts_as_words_alone(asker: Asker, decoder: LlamaCppDecoder) -> None:
    other = dataclasses.replace(asker, host=decoder)
    with pytest.raises(ConfigError, match=r"facts as words, not as nodes.*torch"):
        other.ask("what is the job of Padre", AskOptions(facts_as="nodes"))


def test_texts_that_are_too_long(decoder: LlamaCppDecoder) -> None:
    with pytest.raises(ConfigError, match=r"has 133 word pieces; tiny\.gguf reads 128"):
        decoder.write([[5] * 129], 4)


def test_the_model_is_opened_with_more_room_for_a_longer_text(
    asker: Asker, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llama_cpp, "N_POSITIONS", 32)
    decoder = LlamaCppDecoder(file, n_positions=128, n_threads=1)
    short, long = [5] * 20, [5, 6] * 25
    before = decoder.log_chances(short, [7, 8])
    assert decoder.log_chances(long, [7, 8]) == pytest.approx(
        log_chances(asker, long, [7, 8]), abs=TOLERANCE
    )
    assert decoder.log_chances(short, [7, 8]) == pytest.approx(before, abs=TOLERANCE)
    decoder.close()


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="is no file"):
        LlamaCppDecoder(tmp_path / "missing.gguf")
    (tmp_path / "bad.gguf").write_bytes(b"GGUF and nothing else")
    with pytest.raises(HostError, match=r"bad\.gguf.*whole GGUF file"):
        LlamaCppDecoder(tmp_path / "bad.gguf")


def test_it_can_be_closed_at_once(file: Path) -> None:
    for _ in range(5):  # the server ended or hung, as its thread had begun or not
        LlamaCppDecoder(file, n_positions=64, n_threads=1).close()


def test_its_socket_is_for_this_user_alone_and_goes(
    file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    decoder = LlamaCppDecoder(file, n_positions=64, n_threads=1)
    (folder,) = tmp_path.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    decoder.close()
    assert not list(tmp_path.iterdir())
