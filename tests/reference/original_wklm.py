"""WKLM's released code beside its model: names, chunks of articles, batches, fact completion.

Xiong et al. 2020 (ICLR), repository xwhan/fairseq-wklm, branch knowledge_pretrain. What replaces
the mentions is not in it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers import AutoConfig, AutoModel

from kept.convert import tables
from kept.convert.kepler import LAYER, PACKED
from kept.convert.tables import Rules
from kept.encoders.wklm import WKLM
from kept.objectives.mentions.truth import BOUNDARY, ENDS, FIRST
from kept.objectives.model import KnowledgeForPreTraining
from kg_loaders import KnowledgeGraph

ENCODER = "pretrain_model.encoder."
SENTENCE = f"{ENCODER}sentence_encoder."
VARIANTS: dict[str, dict[str, Any]] = {
    "first_token": {"read": FIRST, "zero_single": True},
    "start_end": {"read": ENDS, "zero_single": True},
    "boundary": {"read": BOUNDARY},
    "boundary_add_layer": {"read": BOUNDARY, "n_layers": 1},
}
CLASSIFIERS = {
    "first_token": ("kdn_outputs",),
    "start_end": ("kdn_s_outputs", "kdn_e_outputs"),
    "boundary": ("kdn_b_outputs",),
    "boundary_add_layer": ("kdn_b_outputs",),
}
UNUSED = (f"{ENCODER}sentence_projection_layer.weight",)
"""The next-sentence head: it gets no gradient."""


def rules(variant: str, n_layers: int, n_own: int) -> Rules:
    """Their names to ours, for a model of so many layers, `n_own` of them the objective's."""
    truth = "objectives.mention_truth."
    layers = [
        (f"{theirs_at}{i}.{theirs}", f"{ours_at}{i}.{ours}")
        for theirs_at, ours_at, n in (
            (f"{SENTENCE}layers.", "encoder.host.encoder.layer.", n_layers),
            ("kdn_layers.", f"{truth}layers.", n_own),
        )
        for i in range(n)
        for theirs, ours in LAYER
    ]
    head_names = [
        ("lm_head_transform_weight.", f"{truth}transform.dense."),
        ("layer_norm.", f"{truth}transform.layer_norm."),
    ]
    classes = [(f"{name}.", f"{truth}classes.{i}.") for i, name in enumerate(CLASSIFIERS[variant])]
    around = "encoder.host.embeddings."
    return (
        (f"{SENTENCE}embed_tokens.weight", f"{around}word_embeddings.weight"),
        (f"{SENTENCE}embed_positions.weight", f"{around}position_embeddings.weight"),
        (f"{SENTENCE}segment_embeddings.weight", f"{around}token_type_embeddings.weight"),
        (f"{SENTENCE}emb_layer_norm.", f"{around}LayerNorm."),
        (f"{ENCODER}masked_lm_pooler.", "encoder.host.pooler.dense."),
        (f"{ENCODER}lm_head_transform_weight.", "objectives.mlm.transform.dense."),
        (f"{ENCODER}layer_norm.", "objectives.mlm.transform.layer_norm."),
        (f"{ENCODER}lm_output_learned_bias", "objectives.mlm.bias"),
        *layers,
        *(head_names if n_own else ()),
        *classes,
    )


def model_of(
    state: Mapping[str, Any], config: Mapping[str, Any], variant: str, graph: KnowledgeGraph
) -> KnowledgeForPreTraining:
    """The released model in one of its variants, as ours; weights of other variants stay out."""
    n_own = VARIANTS[variant].get("n_layers", 0)
    host = AutoModel.from_config(
        AutoConfig.for_model(
            "bert",
            vocab_size=config["vocab_size"],
            hidden_size=config["encoder_embed_dim"],
            num_hidden_layers=config["encoder_layers"],
            num_attention_heads=config["encoder_attention_heads"],
            intermediate_size=config["encoder_ffn_embed_dim"],
            max_position_embeddings=len(state[f"{SENTENCE}embed_positions.weight"]),
            type_vocab_size=config["num_segment"],
            layer_norm_eps=config["layer_norm_eps"],
            hidden_act=config["activation_fn"],
            pad_token_id=config["padding_idx"],
            hidden_dropout_prob=config["dropout"],
            attention_probs_dropout_prob=config["dropout"],
        )
    )
    objectives = {"mlm": {}, "mention_truth": VARIANTS[variant]}
    model = KnowledgeForPreTraining.of(WKLM.from_host(host, graph), objectives)
    table = rules(variant, config["encoder_layers"], n_own)
    parts = tables.unpack(dict(state), PACKED)
    kept = {name: value for name, value in parts.items() if _is_in(name, table)}
    model.load_state_dict(tables.rename(kept, table))
    return model.eval()


def _is_in(name: str, table: Rules) -> bool:
    return any(name == old or (old.endswith(".") and name.startswith(old)) for old, _ in table)


# ---- chunks of articles ---------------------------------------------------------------------
MOST_VALID_ARTICLES = 50_000


def chunks(files: Mapping[str, Sequence[str]], chunk_size: int) -> dict[str, list[str]]:
    """The files that are written of each shard: three lines an article (text, mentions, names).

    The last shard is for validation, as a whole where it is small; its training files are empty.
    """
    chunk_files: dict[str, list[str]] = {}
    for number, lines in enumerate(files.values()):
        is_last = number == len(files) - 1
        n_articles = len(lines) // 3
        rows = [
            row
            for i in range(min(n_articles, MOST_VALID_ARTICLES) if is_last else n_articles)
            for row in _chunks_of(*lines[3 * i : 3 * i + 2], chunk_size - 1)
        ]
        for name, column in zip(
            ("context", "lbl", "len", "offset"), zip(*rows, strict=True), strict=False
        ):
            chunk_files[
                f"{'valid' if is_last else 'train'}/{name}_{0 if is_last else number}.txt"
            ] = [*column]
        if is_last:
            chunk_files |= {
                f"train/{name}_{number}.txt": [] for name in ("context", "lbl", "len", "offset")
            }
    return chunk_files


def _chunks_of(text: str, mentions: str, size: int) -> list[tuple[str, str, str, str]]:
    tokens = text.split()
    spans = [tuple(map(int, each.split())) for each in mentions.split("||") if each]
    rows = []
    for start in range(0, len(tokens), size):
        stop = start + size
        inside = [
            (label, length, offset - start)
            for offset, length, label in spans
            if offset >= start and offset + length <= stop and offset < stop
        ]
        if inside:  # empty mentions keep a piece and are left out when it is written
            written = [mention for mention in inside if mention[1]]
            columns = [" ".join(str(mention[i]) for mention in written) for i in range(3)]
            rows.append((" ".join(tokens[start:stop]), *columns))
    return rows  # type: ignore[return-value]


# ---- batches --------------------------------------------------------------------------------
def masked(
    blocks: Sequence[Sequence[int]],
    mentions: Sequence[Sequence[tuple[int, int]]],
    settings: Mapping[str, Any],
    vocabulary: Mapping[str, int],
) -> tuple[list[list[int]], list[list[int]], list[list[Any]]]:
    """Rows with [CLS] and [SEP], their targets, and every draw, in its order.

    A share of the positions is chosen, those inside a mention are passed over; specials may come
    in as random words.
    """
    draws = np.random.RandomState(settings["numpy_seed"])
    n_words, n_special = vocabulary["n_words"], vocabulary["n_special"]
    rows, targets, record = [], [], []
    for block, spans in zip(blocks, mentions, strict=True):
        input_ids, target = list(block), [vocabulary["pad"]] * len(block)
        covered = {p for start, length in spans for p in range(start, start + length)}
        n = math.ceil(settings["masking_ratio"] * len(block))
        chosen = draws.choice(len(block), n, replace=False).tolist()
        record.append(["choice", len(block), n, chosen])
        for position in sorted(set(chosen) - covered):
            target[position] = block[position]
            rand = draws.random_sample()
            record.append(["random", rand])
            if rand < settings["masking_prob"]:
                input_ids[position] = vocabulary["mask"]
            elif rand < settings["masking_prob"] + settings["random_token_prob"]:
                input_ids[position] = int(draws.randint(n_special, n_words))
                record.append(["randint", n_special, n_words, input_ids[position]])
        rows.append([vocabulary["cls"], *input_ids, vocabulary["sep"]])
        targets.append([vocabulary["pad"], *target, vocabulary["pad"]])
    return rows, targets, record


def codes(spans: NDArray[np.int64], n_tokens: int) -> NDArray[np.float32]:
    """Their marks of mentions `[mention token]` from node spans: first 1, last 2 (which wins),
    before -1, after -2."""
    encodings = np.zeros((len(spans), n_tokens), np.float32)
    for row, (start, stop) in zip(encodings, spans.tolist(), strict=True):
        if stop > start:
            row[start], row[stop - 1] = 1, 2
            row[start - 1], row[stop] = -1, -2
    return encodings


# ---- zero-shot completion -------------------------------------------------------------------
def hits(
    scores: Mapping[str, tuple[float, float]], answers: Sequence[str], alpha: float, k: int
) -> float:
    """Whether an answer is among the k best by p(true) + alpha * p(first token)."""
    ranked = sorted(scores, key=lambda name: -(scores[name][0] + alpha * scores[name][1]))
    return float(any(name in answers for name in ranked[:k]))
