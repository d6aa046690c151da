"""LUKE against transformers' own models, in float64, on configurations drawn at random."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import (
    LukeConfig,
    LukeForEntityClassification,
    LukeForEntityPairClassification,
    LukeForEntitySpanClassification,
    LukeForMaskedLM,
    LukeModel,
    RobertaConfig,
    RobertaModel,
)

from kept import hosts
from kept.batches import IGNORE, MASK_ROW, N_SPECIAL_ROWS, KnowledgeBatch, Visibility
from kept.convert.luke import Rows, from_original, renamed_state, with_body
from kept.encoders.luke import LUKE, LUKEConfig
from kept.graphs.graph import NodeKind
from kept.layers.entity_attention import RealPlaces, attention_shares
from kept.tasks.kinds import MULTI, SINGLE

N_CONFIGURATIONS = 50
VOCABULARY = {"[PAD]": 0, "[UNK]": 1, "[MASK]": 2, "[MASK2]": 3}
N_CLASSES = 5


def close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, atol=1e-10, rtol=1e-9)


@dataclass(frozen=True)
class Text:
    """Word ids, and entities as rows of the original's table with their words, end exclusive."""

    words: list[int]
    entities: list[int]
    spans: list[tuple[int, int]]


@dataclass(frozen=True)
class Case:
    """A configuration of the original, texts for it, and the rows of its entities."""

    config: LukeConfig
    texts: list[Text]
    rows: Rows
    seed: int

    def reference(self, kind: type[Any], **changes: Any) -> Any:
        """A model of the original with noise on every weight: fresh biases hide faults."""
        torch.manual_seed(self.seed)
        config = LukeConfig(**{**self.config.to_dict(), **changes})
        model = kind(config).double().eval()
        if isinstance(model, LukeForMaskedLM):  # transformers leaves it untied
            model.lm_head.decoder.weight = model.luke.embeddings.word_embeddings.weight
            model.lm_head.decoder.bias = model.lm_head.bias
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 0.15 * torch.randn_like(parameter)
                parameter.copy_(parameter.float())  # ours is loaded in float32
        return model

    def ours(self, theirs: Any, **options: Any) -> Any:
        state = {name: value.clone() for name, value in theirs.state_dict().items()}
        settings = theirs.config.to_dict() | {"architectures": [type(theirs).__name__]}
        model = from_original(with_body(state), settings, self.rows, **options)
        return model.double().eval()

    @property
    def inputs(self) -> dict[str, Tensor]:
        return inputs_of(self.texts)

    @property
    def batch(self) -> KnowledgeBatch:
        return batch_of(self.texts, self.rows)


def draw(seed: int) -> Case:
    """Sizes, attention, layers, heads, counts of entities and padding, by the seed."""
    rng = np.random.default_rng(seed)
    n_heads, head = int(rng.integers(1, 5)), int(rng.integers(2, 7))
    width, n_entities = n_heads * head, int(rng.integers(6, 25))
    config = LukeConfig(
        vocab_size=int(rng.integers(20, 60)), entity_vocab_size=n_entities, hidden_size=width,
        entity_emb_size=width if seed % 3 == 0 else int(rng.integers(2, 2 * width)),
        num_hidden_layers=int(rng.integers(1, 5)), num_attention_heads=n_heads,
        intermediate_size=int(rng.integers(4, 40)),
        max_position_embeddings=int(rng.integers(20, 41)),
        type_vocab_size=1 + seed % 2, layer_norm_eps=1e-5, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, num_labels=N_CLASSES,
        use_entity_aware_attention=seed % 4 != 1,
    )  # fmt: skip
    texts = [text_of(rng, config, least=0) for _ in range(int(rng.integers(1, 4)))]
    return Case(config, texts, Rows.of(VOCABULARY, n_entities, "drawn"), seed)


def text_of(rng: np.random.Generator, config: LukeConfig, *, least: int) -> Text:
    """Mentions of any length, overlapping ones, and equal entities are among them."""
    n_words, n_entities = int(rng.integers(5, 15)), int(rng.integers(least, 5))
    starts = rng.integers(0, n_words, n_entities)
    stops = np.minimum(starts + rng.integers(1, 5, n_entities), n_words)
    return Text(
        rng.integers(3, config.vocab_size, n_words).tolist(),
        rng.integers(4, config.entity_vocab_size, n_entities).tolist(),
        list(zip(starts.tolist(), stops.tolist(), strict=True)),
    )


def inputs_of(texts: list[Text]) -> dict[str, Tensor]:
    """As the original's tokenizer pads them."""
    n_words = max(len(text.words) for text in texts)
    n_entities = max(len(text.entities) for text in texts)
    longest = max([stop - start for text in texts for start, stop in text.spans], default=1)
    ids = torch.ones(len(texts), n_words, dtype=torch.long)
    word_mask = torch.zeros_like(ids)
    entities = torch.zeros(len(texts), n_entities, dtype=torch.long)
    entity_mask = torch.zeros_like(entities)
    positions = torch.full((len(texts), n_entities, longest), -1)
    for i, text in enumerate(texts):
        ids[i, : len(text.words)] = torch.tensor(text.words)
        word_mask[i, : len(text.words)] = 1
        for j, (entity, (start, stop)) in enumerate(zip(text.entities, text.spans, strict=True)):
            entities[i, j], entity_mask[i, j] = entity, 1
            positions[i, j, : stop - start] = torch.arange(start, stop)
    inputs = {"input_ids": ids, "attention_mask": word_mask}
    if n_entities:
        inputs |= {
            "entity_ids": entities, "entity_attention_mask": entity_mask,
            "entity_position_ids": positions,
        }  # fmt: skip
    return inputs


def batch_of(texts: list[Text], rows: Rows) -> KnowledgeBatch:
    return KnowledgeBatch.stack([sample_of(text, rows) for text in texts], word_pad_id=1)


def sample_of(text: Text, rows: Rows) -> KnowledgeBatch:
    """As the view makes it: words, then entities; positions of the words run on from 0."""
    n_words, n_entities = len(text.words), len(text.entities)
    n_nodes = n_words + n_entities
    ids = [*text.words, *(rows.ours.index(entity) for entity in text.entities)]
    kinds = [int(NodeKind.WORD)] * n_words + [int(NodeKind.ENTITY)] * n_entities
    positions = [*range(n_words), *(start for start, _ in text.spans)]
    return KnowledgeBatch(
        node_ids=torch.tensor([ids]),
        node_kinds=torch.tensor([kinds]),
        node_mask=torch.ones(1, n_nodes, dtype=torch.bool),
        positions=torch.tensor([positions]),
        segment_ids=torch.zeros(1, n_nodes, dtype=torch.long),
        visibility=Visibility.everyone(1, n_nodes),
        mention_spans=torch.tensor(text.spans, dtype=torch.long).view(1, n_entities, 2),
    )


@pytest.fixture(scope="module", params=range(N_CONFIGURATIONS))
def case(request: pytest.FixtureRequest) -> Case:
    return draw(request.param)


def test_the_configurations_differ_in_what_matters() -> None:
    cases = [draw(seed) for seed in range(N_CONFIGURATIONS)]
    configs = [case.config for case in cases]
    for name in ("use_entity_aware_attention", "type_vocab_size", "num_hidden_layers"):
        assert len({getattr(config, name) for config in configs}) > 1, name
    assert len({config.entity_emb_size == config.hidden_size for config in configs}) == 2
    counts = [[len(text.entities) for text in case.texts] for case in cases]
    assert any(max(each) == 0 for each in counts)
    assert any(min(each) < max(each) for each in counts)
    assert any(len({len(text.words) for text in case.texts}) > 1 for case in cases)


def places(texts: list[Text]) -> list[tuple[int, int, int]]:
    """Row, number of words and of entities of each text."""
    return [(i, len(text.words), len(text.entities)) for i, text in enumerate(texts)]


def test_states_of_every_layer(case: Case) -> None:
    theirs = case.reference(LukeModel)
    with torch.no_grad():
        expected = theirs(**case.inputs, output_hidden_states=True)
        model = case.ours(theirs)
        output = model(case.batch)
    assert len(output.hidden_states) == len(expected.hidden_states)
    for number, states in enumerate(output.hidden_states):
        for row, n_words, n_entities in places(case.texts):
            close(states[row, :n_words], expected.hidden_states[number][row, :n_words])
            if n_entities:
                entities = expected.entity_hidden_states[number][row, :n_entities]
                close(states[row, n_words : n_words + n_entities], entities)
    close(hosts.pooled(model.host, output.node_states), expected.pooler_output)


def test_gradients_of_every_weight(case: Case) -> None:
    theirs = case.reference(LukeModel)
    expected, model = theirs(**case.inputs), case.ours(theirs)
    output = model(case.batch)
    torch.manual_seed(case.seed)
    their_loss = our_loss = torch.zeros((), dtype=torch.float64)
    for row, n_words, n_entities in places(case.texts):
        shares = torch.randn(n_words + n_entities, case.config.hidden_size, dtype=torch.float64)
        our_loss = our_loss + (output.node_states[row, : len(shares)] * shares).sum()
        their_states = expected.last_hidden_state[row, :n_words]
        if n_entities:
            entities = expected.entity_last_hidden_state[row, :n_entities]
            their_states = torch.cat([their_states, entities])
        their_loss = their_loss + (their_states * shares).sum()
    compare_gradients(case, theirs, their_loss, model, our_loss)


def compare_gradients(
    case: Case, theirs: Any, their_loss: Tensor, model: Any, our_loss: Tensor
) -> None:
    """Under our names; the row of padding gets none."""
    their_loss.backward()
    our_loss.backward()
    gradients = gradients_of(theirs)
    expected = renamed_state(with_body(gradients), case.rows, case.config.num_hidden_layers)
    if isinstance(model, LUKE):
        expected = {name.removeprefix("encoder."): value for name, value in expected.items()}
    ours = gradients_of(model)
    assert ours.keys() == expected.keys()
    for name, gradient in ours.items():
        close(gradient, expected[name])


def gradients_of(model: Any) -> Mapping[str, Tensor]:
    """By the names of the state dict, tied ones twice; zeros where there is none."""
    return {
        name: torch.zeros_like(value) if value.grad is None else value.grad
        for name, value in model.state_dict(keep_vars=True).items()
    }


def test_attention_of_every_layer(case: Case) -> None:
    """From the original's own states: words first, one softmax over words and entities."""
    theirs = case.reference(LukeModel)
    theirs.set_attn_implementation("eager")
    if not case.config.use_entity_aware_attention or "entity_ids" not in case.inputs:
        return
    with torch.no_grad():
        expected = theirs(**case.inputs, output_hidden_states=True, output_attentions=True)
    model = case.ours(theirs)
    keys = torch.cat([case.inputs["attention_mask"], case.inputs["entity_attention_mask"]], dim=1)
    mask = (1.0 - keys.double())[:, None, None] * torch.finfo(torch.float64).min
    mask = mask.expand(-1, -1, keys.shape[1], -1)
    n_words = case.inputs["input_ids"].shape[1]
    for number, layer in enumerate(hosts.layers(model.host)):
        states = torch.cat(
            [expected.hidden_states[number], expected.entity_hidden_states[number]], dim=1
        )
        with torch.no_grad():
            everywhere = torch.ones(states.shape[:2], dtype=torch.bool)
            real = RealPlaces(everywhere[:, :n_words], everywhere[:, n_words:])
            shares = attention_shares(
                layer.attention.self, model.queries[number], real.take(states), real, n_words, mask
            )
        close(shares, expected.attentions[number])


def test_masked_words_and_entities(case: Case) -> None:
    """Both losses, and gradients, those of the tied tables from both sides."""
    rng, rows = np.random.default_rng(case.seed), case.rows
    texts = [text_of(rng, case.config, least=1) for _ in case.texts]
    case = Case(case.config, texts, rows, case.seed)
    theirs, inputs, batch = case.reference(LukeForMaskedLM), case.inputs, case.batch
    labels = torch.full_like(batch.node_ids, IGNORE)
    word_labels = torch.full_like(inputs["input_ids"], IGNORE)
    entity_labels = torch.full_like(inputs["entity_ids"], IGNORE)
    for row, n_words, n_entities in places(texts):
        position, entity = int(rng.integers(n_words)), int(rng.integers(n_entities))
        word = int(rng.integers(3, case.config.vocab_size))
        label = int(rng.integers(4, case.config.entity_vocab_size))
        labels[row, position] = word_labels[row, position] = word
        entity_labels[row, entity] = label
        labels[row, n_words + entity] = rows.ours.index(label)
    expected = theirs(**inputs, labels=word_labels, entity_labels=entity_labels)
    model = case.ours(theirs)
    losses = model(batch.replace(node_labels=labels)).losses
    close(losses["mlm"], expected.mlm_loss)
    close(losses["masked_entities"], expected.mep_loss)
    states = model.encoder(batch).node_states
    objective = model.objectives["masked_entities"]
    for row, n_words, n_entities in places(texts):
        entities = states[row, n_words : n_words + n_entities]
        logits = objective.all_logits(entities, model.encoder)
        columns = [*rows.ours, rows.second_mask]
        close(logits, expected.entity_logits[row, :n_entities][:, columns])
    compare_gradients(case, theirs, expected.loss, model, sum(losses.values()))


def targeted(
    case: Case, n_targets: int | None, *, seconds: bool
) -> tuple[Case, dict[str, Tensor], KnowledgeBatch]:
    """Texts with targets: the original reads their [MASK] entities first, then linked ones."""
    rng = np.random.default_rng(case.seed + 1)
    masks = (MASK_OF_THEIRS, SECOND_OF_THEIRS if seconds else MASK_OF_THEIRS)
    originals, samples = [], []
    for _ in case.texts:
        text = text_of(rng, case.config, least=0)
        n = n_targets or int(rng.integers(1, 5))
        starts = rng.integers(0, len(text.words), n)
        stops = np.minimum(starts + rng.integers(1, 4, n), len(text.words))
        targets = list(zip(starts.tolist(), stops.tolist(), strict=True))
        rows = [masks[min(i, 1)] for i in range(n)]
        linked = text if n_targets else Text(text.words, [], [])
        originals.append(Text(text.words, [*rows, *linked.entities], [*targets, *linked.spans]))
        sample = sample_of(linked, case.rows)
        samples.append(sample.replace(target_spans=torch.tensor([targets])))
    batch = KnowledgeBatch.stack(samples, word_pad_id=1)
    return Case(case.config, originals, case.rows, case.seed), inputs_of(originals), batch


MASK_OF_THEIRS, SECOND_OF_THEIRS = VOCABULARY["[MASK]"], VOCABULARY["[MASK2]"]


@pytest.mark.parametrize(
    ("theirs_of", "n_targets"),
    [(LukeForEntityClassification, 1), (LukeForEntityPairClassification, 2)],
)
def test_typing_and_pairs(case: Case, theirs_of: type[Any], n_targets: int) -> None:
    """One model of theirs is compared under labels of one class, and under several at once."""
    case, inputs, batch = targeted(case, n_targets, seconds=True)
    theirs, n_texts = case.reference(theirs_of), len(batch)
    for kind in (SINGLE, MULTI):
        model = case.ours(theirs, problem_type=kind)
        theirs.zero_grad()
        torch.manual_seed(case.seed)
        labels = torch.randint(N_CLASSES, (n_texts,))
        if kind == MULTI:
            labels = torch.randint(2, (n_texts, N_CLASSES))
        expected, output = theirs(**inputs, labels=labels), model(batch.replace(labels=labels))
        close(output.class_logits, expected.logits)
        close(output.losses["class"], expected.loss)
        compare_gradients(case, theirs, expected.loss, model, output.losses["class"])


def test_spans(case: Case) -> None:
    """A class for each of any number of spans; padded ones are labelled as not predicted."""
    case, inputs, batch = targeted(case, None, seconds=False)
    rows = Rows.of(VOCABULARY, case.config.entity_vocab_size, "drawn")
    rows = Rows(rows.unknown, rows.pad, rows.mask, None, (SECOND_OF_THEIRS, *rows.entities))
    case = Case(case.config, case.texts, rows, case.seed)
    theirs = case.reference(LukeForEntitySpanClassification)
    model = case.ours(theirs)
    n_spans = inputs["entity_ids"].shape[1]
    starts, ends = (torch.zeros(len(batch), n_spans, dtype=torch.long) for _ in range(2))
    labels = torch.full((len(batch), n_spans), IGNORE)
    torch.manual_seed(case.seed)
    for row, text in enumerate(case.texts):
        n = len(text.spans)
        starts[row, :n] = torch.tensor([start for start, _ in text.spans])
        ends[row, :n] = torch.tensor([stop - 1 for _, stop in text.spans])
        labels[row, :n] = torch.randint(N_CLASSES, (n,))
    expected = theirs(
        **inputs, entity_start_positions=starts, entity_end_positions=ends, labels=labels
    )
    output = model(batch.replace(labels=labels))
    is_real = labels != IGNORE
    close(output.class_logits[is_real], expected.logits[is_real])
    close(output.losses["class"], expected.loss)
    compare_gradients(case, theirs, expected.loss, model, output.losses["class"])


@torch.no_grad()
def test_the_order_of_entities_permutes_their_states_alone(case: Case) -> None:
    model = case.ours(case.reference(LukeModel))
    for text in case.texts:
        order = np.random.default_rng(case.seed).permutation(len(text.entities)).tolist()
        moved = Text(text.words, [text.entities[i] for i in order], [text.spans[i] for i in order])
        before, after = (model(sample_of(each, case.rows)).node_states[0] for each in (text, moved))
        n_words = len(text.words)
        close(after[:n_words], before[:n_words])
        close(after[n_words:], before[n_words:][order])


@torch.no_grad()
def test_with_equal_queries_it_is_plain_attention(case: Case) -> None:
    theirs = case.reference(LukeModel, use_entity_aware_attention=False)
    plain = case.ours(theirs)
    aware = LUKE(
        LUKEConfig(**{**plain.config.to_dict(), "entity_aware": True, "host": plain.config.host})
    ).double().eval()  # fmt: skip
    aware.load_state_dict(plain.state_dict(), strict=False)
    for queries, layer in zip(aware.queries, hosts.layers(aware.host), strict=True):
        queries.copy_from(layer.attention.self.query)
    mask = case.batch.node_mask
    close(aware(case.batch).node_states[mask], plain(case.batch).node_states[mask])


def test_only_rows_that_are_read_get_a_gradient(case: Case) -> None:
    """Of the entity table, and of the entities' own positions."""
    model, batch = case.ours(case.reference(LukeModel)), case.batch
    model(batch).node_states[batch.node_mask].sum().backward()
    is_entity = batch.node_kinds == NodeKind.ENTITY
    entity_rows = {*batch.node_ids[is_entity].tolist()}
    inside = {position for text in case.texts for span in text.spans for position in range(*span)}
    for weight, used in (
        (model.entity_vectors.weight, entity_rows),
        (model.entity_inputs.positions.weight, inside),
    ):
        gradient = torch.zeros_like(weight) if weight.grad is None else weight.grad
        assert {*gradient.abs().sum(1).nonzero()[:, 0].tolist()} == used


@torch.no_grad()
def test_without_entities_it_is_the_host() -> None:
    case_ = draw(0)
    config = RobertaConfig(
        **{
            name: getattr(case_.config, name)
            for name in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
                         "intermediate_size", "max_position_embeddings", "type_vocab_size",
                         "layer_norm_eps")
        },
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    host = RobertaModel(config).double().eval()
    model = LUKE(LUKEConfig(host=config, n_entities=4)).double().eval()
    assert set(model.host.load_state_dict(host.state_dict()).missing_keys) == set()
    texts = [Text(text.words, [], []) for text in case_.texts]
    inputs, batch = inputs_of(texts), batch_of(texts, case_.rows)
    expected, actual = host(**inputs).last_hidden_state, model(batch).node_states
    close(actual[batch.node_mask], expected[batch.node_mask])


def test_a_masked_row_of_ours_is_the_original_s() -> None:
    case_ = draw(2)
    theirs = case_.reference(LukeModel)
    model = case_.ours(theirs)
    table = theirs.entity_embeddings.entity_embeddings.weight
    assert torch.equal(model.entity_vectors.weight[MASK_ROW], table[MASK_OF_THEIRS])
    assert torch.equal(model.second_mask, table[SECOND_OF_THEIRS])
    assert torch.equal(model.entity_vectors.weight[N_SPECIAL_ROWS:], table[4:])
    assert F.embedding(torch.tensor([1]), model.entity_vectors.weight).equal(table[:1])
