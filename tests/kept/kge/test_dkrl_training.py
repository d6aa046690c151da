"""DKRL's encoders against loops, and its trainer on entities that only words describe."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from kept.errors import BatchError, ConfigError
from kept.evaluation.ranking import Filter, rank
from kept.kge.dkrl import DKRL, DKRL_RECIPE, CbowEncoder, CnnEncoder, train_dkrl
from kept.kge.training_config import TrainingConfig

WIDTH, N_WORDS = 8, 12


def make(
    kind: str = "cnn", n_entities: int = 5, width: int = WIDTH, word_width: int = 8
) -> tuple[DKRL, torch.Generator]:
    generator = torch.Generator().manual_seed(0)
    words = torch.randn(N_WORDS, word_width, generator=generator)
    encoder = (
        CnnEncoder(words=words, width=width, n_filters=16, generator=generator)
        if kind == "cnn"
        else CbowEncoder(words=words, width=width, generator=generator)
    )
    model = DKRL(n_entities=n_entities, n_relations=2, width=width, encoder=encoder,
                 generator=generator)  # fmt: skip
    return model, generator


def pad(lists: list[list[int]], n_token: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    n_token = n_token or max(map(len, lists))
    ids = torch.zeros(len(lists), n_token, dtype=torch.int64)
    mask = torch.zeros(len(lists), n_token, dtype=torch.bool)
    for row, words in enumerate(lists):
        ids[row, : len(words)] = torch.tensor(words)
        mask[row, : len(words)] = True
    return ids, mask


@pytest.mark.parametrize("kind", ["cnn", "cbow"])
def test_padding_and_batches_change_nothing(kind: str):
    model, _ = make(kind, word_width=8 if kind == "cnn" else 6)
    texts = [[3], [1, 2, 3, 4], [5, 4, 3, 2, 1], [0, 0, 7, 8, 9, 10, 11, 1, 2]]
    together = model.encode_descriptions(*pad(texts, 17))
    alone = torch.cat([model.encode_descriptions(*pad([text])) for text in texts])
    torch.testing.assert_close(together, alone)
    in_blocks = model.encode_descriptions(*pad(texts), batch_size=3)
    torch.testing.assert_close(together, in_blocks)


def test_cbow_is_the_mean_of_its_words():
    model, _ = make("cbow")
    vector = model.encode_descriptions(*pad([[1, 2, 2]]))[0]
    expected = (model.encoder.words[1] + 2 * model.encoder.words[2]) / 3
    torch.testing.assert_close(vector, expected)


@pytest.mark.parametrize("norm", [1, 2])
def test_joint_ranking_scores_are_the_four_energies(norm: int):
    model, _ = make()
    model.norm = norm
    descriptions = model.encode_descriptions(*pad([[i, i + 1] for i in range(5)])).detach()
    triples = torch.tensor([[0, 1, 2], [3, 0, 4]])
    energies = model.energies(triples, descriptions)
    everywhere = torch.ones(5, dtype=torch.bool)
    for seen, columns in ((everywhere, slice(None)), (None, slice(1, 2))):
        expected = -energies[:, columns].sum(1)
        for direction, slot in (("head", 0), ("relation", 1), ("tail", 2)):
            scores = model.ranker(descriptions, seen)(direction, triples)
            torch.testing.assert_close(scores[torch.arange(2), triples[:, slot]], expected)
    unseen = model.ranker(descriptions, ~everywhere)("tail", triples)
    torch.testing.assert_close(unseen, 4 * model.ranker(descriptions, None)("tail", triples))


def test_an_entity_without_words_is_named():
    model, _ = make()
    with pytest.raises(BatchError, match="the first is row 1"):
        model.encode_descriptions(*pad([[1], [], [2]]))


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        ("cnn", replace(DKRL_RECIPE, n_epochs=40, batch_size=16, n_negatives=32,
                        learning_rate=0.02)),
        ("cbow", replace(DKRL_RECIPE, n_epochs=40, batch_size=16, n_negatives=32,
                        learning_rate=0.02)),
        ("cnn", TrainingConfig(
            n_epochs=40, batch_size=16, learning_rate=0.01, optimiser="adam", loss="margin",
            objective="negative_sampling", n_negatives=16, share_negatives=True, margin=1.0,
            relation_weight=1.0, unit_entities=True, reject_known=True)),
    ],
    ids=["cnn", "cbow", "margin"],
)  # fmt: skip
def test_unseen_entities_are_found_by_their_descriptions(kind: str, config: TrainingConfig):
    # thing i has word i % 4 and belongs (relation i % 2) to class i % 4, whose word is 4 + i % 4
    n_things = 40
    things = [[i % 4, 8 + i % 3] for i in range(n_things)]
    tokens, mask = pad([*things, *([4 + c, 11] for c in range(4))])
    triples = np.array([(i, i % 2, n_things + i % 4) for i in range(n_things)])
    train, test = triples[:32], triples[32:]
    model, generator = make(kind, n_entities=n_things + 4, width=16)
    losses = train_dkrl(model, train, tokens, mask, config=config, generator=generator)
    assert losses[-1] < losses[0]
    seen = torch.zeros(n_things + 4, dtype=torch.bool)
    seen[torch.from_numpy(train[:, [0, 2]]).flatten()] = True
    descriptions = model.encode_descriptions(tokens, mask).detach()
    known = Filter({"all": triples}, n_entities=n_things + 4, n_relations=2)
    for mask_of_seen in (None, seen):
        scores = model.ranker(descriptions, mask_of_seen)
        result = rank(scores, test, filter=known, ties="pessimistic", candidates="all",
                      directions=("tail", "relation"))  # fmt: skip
        assert result.of("tail").mrr > 0.9
        assert result.of("relation").mrr > 0.9


def test_equal_seeds_give_equal_bits():
    weights = []
    for _ in range(2):
        model, generator = make()
        config = replace(DKRL_RECIPE, n_epochs=2, batch_size=2, n_negatives=4)
        triples = np.array([[0, 0, 1], [1, 1, 2], [3, 0, 4]])
        train_dkrl(model, triples, *pad([[i, i + 1] for i in range(5)]), config=config,
                   generator=generator)  # fmt: skip
        weights.append(model.encoder.words.detach().clone())
    assert torch.equal(*weights)


def test_only_shared_negative_sampling_is_taken():
    model, generator = make()
    config = TrainingConfig(n_epochs=1, batch_size=1, learning_rate=0.1)
    with pytest.raises(ConfigError, match="share_negatives"):
        train_dkrl(model, np.array([[0, 0, 1]]), *pad([[1]] * 5), config=config,
                   generator=generator)  # fmt: skip
