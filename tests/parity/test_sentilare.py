"""SentiLARE's polarities, inputs, masking, four losses and fine-tuning against the original's."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from reference import original_sentilare as original
from safetensors.torch import load_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor
from transformers import AutoConfig, AutoModel, PreTrainedTokenizerFast

from entity_linking.mentions import LinkedText
from kept import hosts
from kept.batches import IGNORE, NONE, KnowledgeBatch
from kept.encoders.lexical.sentilare import SentiLARE
from kept.graphs.builder import BuilderConfig, build
from kept.graphs.sentiment import (
    NEUTRAL,
    OTHER,
    PARTS,
    SentimentLexicon,
    polarity,
    prior_score,
    sense_weights,
)
from kept.graphs.views import WORDS_ONLY
from kept.graphs.views.sentilare import PART, POLARITY, RATING, Label, labelled
from kept.heads.model import MULTI, SINGLE, TAGGING, KnowledgeForTask
from kept.objectives.described_triples import text_batch
from kept.objectives.lexical.sentiment import (
    SentimentOptions,
    hides,
    with_labels,
    with_rating,
)
from kept.objectives.model import KnowledgeForPreTraining
from kept.randomness import generator
from kg_loaders import graph_from_records

METHOD = "sentilare"
ATOL = RTOL = 1e-5
INPUTS = {PART: "pos_tag_ids", POLARITY: "senti_word_ids", RATING: "polarity_ids"}
LABELS = {PART: "pos_tag_labels", POLARITY: "senti_words_labels", RATING: "polarity_labels"}
SHORT = {PART: "pos", POLARITY: "senti", RATING: "polarity"}
LOSSES = {"mlm": "masked_lm", PART: "pos_tag", POLARITY: "senti", RATING: "polarity"}
"""Our vocabularies and losses, and what they are called there."""
TABLES = {"pos_tag": PART, "senti": POLARITY, "polarity": RATING}
HEADS = {"pos_head": PART, "senti_head": POLARITY, "pola_head": RATING}


def load(folder: Path, name: str) -> dict[str, Tensor]:
    return load_file(folder / f"{name}.safetensors")


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def ours(name: str) -> str:
    """Our parameter of the original's `name`."""
    first, _, rest = name.partition(".")
    if first == "roberta":
        for theirs, our in TABLES.items():
            if rest == f"embeddings.{theirs}_embeddings.weight":
                return f"encoder.labels.{our}.vectors.weight"
        return f"encoder.host.{rest}"
    stem = "objectives.mlm" if first == "lm_head" else f"objectives.sentiment.heads.{HEADS[first]}"
    return f"{stem}.{rest}" if rest == "bias" else f"{stem}.transform.{rest}"


def byte_pieces(folder: Path, single: str = "<s> $A </s>") -> PreTrainedTokenizerFast:
    """Byte-level pieces, a blank in front of every text."""
    lines = (folder / "merges.txt").read_text(encoding="utf-8").splitlines()
    merges = [tuple(line.split()) for line in lines if line and not line.startswith("#version")]
    ids = read(folder, "vocab")
    inner = Tokenizer(models.BPE(ids, merges, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=True)
    inner.post_processor = processors.TemplateProcessing(
        single=single, pair="<s> $A </s> </s> $B:1 </s>:1",
        special_tokens=[(name, ids[name]) for name in ("<s>", "</s>")],
    )  # fmt: skip
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, unk_token="<unk>", pad_token="<pad>", cls_token="<s>",
        sep_token="</s>", mask_token="<mask>",
    )  # fmt: skip


def new_encoder(folder: Path) -> SentiLARE:
    config, known = read(folder, "config"), AutoConfig.for_model("roberta").to_dict()
    ids = read(folder, "tokenizer")
    host = AutoModel.from_config(
        AutoConfig.for_model(
            "roberta", **{k: v for k, v in config.items() if k in known and k != "num_labels"},
            pad_token_id=ids["pad_token_id"],
        )
    )  # fmt: skip
    n_ratings = config["polarity_vocab"] - 1
    made = SentiLARE.from_host(host, graph_from_records([]), n_ratings=n_ratings)
    assert made.table(PART).vectors.num_embeddings == config["pos_tag_vocab"]
    assert made.table(POLARITY).vectors.num_embeddings == config["senti_vocab"]
    return made


def new_model(folder: Path) -> KnowledgeForPreTraining:
    """Their weights, every one of the four heads' and the body's; their rows without a look-up."""
    model = KnowledgeForPreTraining.of(new_encoder(folder), {"mlm": {}, "sentiment": {}})
    state = {ours(k): v for k, v in load(folder, "state_dict").items() if is_pretrained(k)}
    assert set(state) == set(model.state_dict())
    model.load_state_dict(state)
    hosts.word_table(model.encoder.host).padding_idx = 0
    for name in SHORT:
        table = model.encoder.table(name)
        table.vectors.padding_idx = table.empty
    return model.eval()


def is_pretrained(name: str) -> bool:
    return name.startswith(("roberta.", "lm_head.", *HEADS))


def with_ids(ids: Tensor, mask: Tensor, given: dict[str, Tensor], pad: int) -> KnowledgeBatch:
    """Padded rows as they stand, with the three vocabularies, named as there."""
    rows = [row[seen].tolist() for row, seen in zip(ids, mask.bool(), strict=True)]
    batch = text_batch(rows, pad_id=pad).pad_to(ids.shape[1], word_pad_id=pad)
    assert torch.equal(batch.node_ids, ids)
    return batch.replace(extra_ids={name: value[..., None] for name, value in given.items()})


def batch_of(folder: Path) -> KnowledgeBatch:
    given, pad = load(folder, "inputs"), read(folder, "tokenizer")["pad_token_id"]
    extras = {name: given[theirs] for name, theirs in INPUTS.items()}
    batch = with_ids(given["input_ids"], given["attention_mask"], extras, pad)
    return batch.replace(
        node_labels=ignored(given["masked_lm_labels"]),
        extra_labels={name: ignored(given[theirs])[..., None] for name, theirs in LABELS.items()},
    )


def ignored(labels: Tensor) -> Tensor:
    return labels.masked_fill(labels == -1, IGNORE)


@pytest.fixture(scope="module")
def model(folder: Path) -> KnowledgeForPreTraining:
    return new_model(folder)


# ---- prior polarity ---------------------------------------------------------------------------
def test_the_lexicon(folder: Path, tmp_path: Path, compared: Any) -> None:
    told = read(folder, "prior_polarity")
    lexicon, rows = lexicon_of(folder, tmp_path)
    for word, parts in told["parsed"].items():
        for part, wanted in parts.items():
            found = [[*sense, rows[sense.gloss]] for sense in lexicon.senses(word, part)]
            compared.equal("senses", found, wanted)


def lexicon_of(folder: Path, place: Path) -> tuple[SentimentLexicon, dict[str, int]]:
    """The lexicon, and the row of each of its glosses."""
    lines = read(folder, "prior_polarity")["sentiwordnet_data_lines"]
    file = place / "sentiwordnet.txt"
    file.write_text("\n".join(["# comment", *lines, ""]), encoding="utf-8")
    glosses = [line.split("\t")[5] for line in lines]
    cut = [g[: g.index('"') - 2] if '"' in g else g for g in glosses]
    return SentimentLexicon.read(file), {gloss: row for row, gloss in enumerate(cut)}


def test_polarities_of_texts(folder: Path, tmp_path: Path, compared: Any) -> None:
    told, (lexicon, rows) = read(folder, "prior_polarity"), lexicon_of(folder, tmp_path)
    glosses = np.array(told["gloss_embedding"])
    lemmas = {(word, part): lemma for word, part, lemma in told["lemmas"]}
    asked, result = iter(told["gloss_attention_in_order"]), told["result"]
    texts = [text for text in told["texts"] if text.strip()]
    for number, text in enumerate(texts):
        sentence = np.array(told["sentence_embedding"][text])
        parts, signs = [], []
        for word in text.split():
            part = original.part_of(told["ptb_tags"].get(word, ""))
            lemma = lemmas.get((word.lower(), part), word.lower())
            senses = () if part == "u" else lexicon.senses(lemma, part)
            near = [cosine(sentence, glosses[rows[sense.gloss]]) for sense in senses]
            parts.append(PARTS.get(part, OTHER))
            signs.append(polarity(prior_score(senses, near)))
            if senses:
                wanted = next(asked)
                weights = sense_weights([sense.number for sense in senses], near)
                compared.close("weights", weights, wanted["weights"], atol=ATOL, rtol=RTOL)
                scores = [sense.positive - sense.negative for sense in senses]
                compared.close("scores", scores, wanted["scores"], atol=ATOL, rtol=RTOL)
                final = prior_score(senses, near)
                compared.close("final", final, wanted["final"], atol=ATOL, rtol=RTOL)
        compared.equal("words", text.split(), result["words"][number])
        compared.equal("parts", parts, result["pos"][number])
        compared.equal("polarities", signs, result["polarity"][number])
    assert next(asked, None) is None
    compared.equal("their labels shift", told["labels"][: len(texts)], result["labels"])
    mapped = {tag: original.part_of(tag) for tag in told["postag_map"]}
    compared.equal("tags", mapped, told["postag_map"])


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(one @ other / (np.linalg.norm(one) * np.linalg.norm(other)))


# ---- inputs -----------------------------------------------------------------------------------
def test_pieces(folder: Path, compared: Any) -> None:
    tokenizer, told = byte_pieces(folder), read(folder, "tokenizer")
    for case in told["cases"]:
        ids = tokenizer(case["text"], add_special_tokens=False)["input_ids"]
        compared.equal("ids", ids, case["ids"])
        names = tokenizer.convert_ids_to_tokens(ids)
        unknown = tokenizer.unk_token_id  # they name what it stands for
        told_names = zip(ids, names, case["tokens"], strict=True)
        known = [name if i == unknown else theirs for i, name, theirs in told_names]
        compared.equal("tokens", names, known)
    for name in ("mask", "pad", "cls", "sep"):
        compared.equal(name, getattr(tokenizer, f"{name}_token_id"), told[f"{name}_token_id"])


def labels_of(words: Sequence[str], parts: Sequence[int], signs: Sequence[int]) -> list[Label]:
    """Where words stand, the blank before them included, for it may be a piece of its own.

    A neutral word of no part has no label.
    """
    found, at = [], 0
    for word, part, sign in zip(words, parts, signs, strict=True):
        if (part, sign) != (OTHER, NEUTRAL):
            found.append(Label(max(at - 1, 0), at + len(word), part, sign))
        at += len(word) + 1
    return found


def sample_of(
    tokenizer: Any, texts: Sequence[tuple[list[str], list[int], list[int]]], length: int
) -> KnowledgeBatch:
    """One text, or two that are a pair, of words with parts and polarities."""
    joined = [" ".join(words) for words, _, _ in texts]
    labels = labels_of(*texts[0])
    start = len(joined[0]) + 1
    if len(texts) > 1:
        second = labels_of(*texts[1])
        labels += [Label(a + start, b + start, part, sign) for a, b, part, sign in second]
    linked = LinkedText(" ".join(joined), (), pair_start=start if len(texts) > 1 else None)
    config = BuilderConfig(max_words=length, max_nodes=2 * length, **WORDS_ONLY)
    graph, draws = graph_from_records([]), generator(0, "parity")
    return labelled(build(linked, tokenizer, graph, generator=draws, config=config), labels)


def shown(batch: KnowledgeBatch, name: str, empty: int, length: int) -> list[int]:
    """The ids of one text in a vocabulary, as they write them."""
    assert batch.extra_ids is not None
    row = batch.extra_ids[name][0, :, 0].tolist() if name in batch.extra_ids else []
    return [empty if i == NONE else i for i in row] + [empty] * (length - len(row))


EMPTY = {PART: OTHER, POLARITY: NEUTRAL}


def test_fine_tuning_inputs(folder: Path, compared: Any) -> None:
    told = read(folder, "finetune_features")
    length, unknown = told["max_seq_length"], read(folder, "config")["polarity_vocab"] - 1
    texts = [(e["words"], e["pos"], e["senti"]) for e in told["examples"]]
    labels = [told["label_list"].index(e["label"]) for e in told["examples"]]
    for case in told["cases"]:
        ends = "<s> $A </s> </s>" if case["sep_token_extra"] else "<s> $A </s>"
        tokenizer = byte_pieces(folder, ends)
        is_pair = case["name"].startswith("pair")
        groups = [told["pair_example"]] if is_pair else [[i] for i in range(len(texts))]
        for group, wanted in zip(groups, case["features"], strict=False):
            batch = sample_of(tokenizer, [texts[i] for i in group], length)
            n = batch.node_ids.shape[1]
            rest = [tokenizer.pad_token_id] * (length - n)
            ids = batch.node_ids[0].tolist() + rest
            compared.equal("input_ids", ids, wanted["input_ids"])
            compared.equal("input_mask", [1] * n + [0] * len(rest), wanted["input_mask"])
            names = tokenizer.convert_ids_to_tokens(batch.node_ids[0].tolist())
            compared.equal("tokens", names, wanted["tokens"][:n])
            compared.equal("pos_ids", shown(batch, PART, OTHER, length), wanted["pos_ids"])
            signs = shown(batch, POLARITY, NEUTRAL, length)
            compared.equal("senti_ids", signs, wanted["senti_ids"])
            compared.equal("unknown", shown(batch, RATING, unknown, length), wanted["polarity_ids"])
            compared.equal("label_id", labels[group[0]], wanted["label_id"])


def reviews_of(told: Any) -> list[list[tuple[list[str], list[int], list[int]]]]:
    """Every review's sentences: words, parts, polarities; an empty line must follow each."""
    signs = iter(told["polarity_lines"])
    found: list[list[tuple[list[str], list[int], list[int]]]] = [[]]
    for is_text, lines in groupby(told["word_and_pos_lines"], key=lambda line: bool(line.strip())):
        for line in lines:
            if not is_text:
                found.append([])
                continue
            pairs = [word.rpartition("#") for word in line.split()]
            parts = [told["pos_ids"][part] for _, _, part in pairs]
            found[-1].append(([w for w, _, _ in pairs], parts, [*map(int, next(signs).split())]))
    return found[:-1]


def test_pre_training_samples(folder: Path, compared: Any) -> None:
    told, tokenizer = read(folder, "pretrain_examples"), byte_pieces(folder)
    reviews, length, options = reviews_of(told), told["max_seq_length"], SentimentOptions()
    n_ratings = read(folder, "config")["polarity_vocab"] - 1
    assert options.late == told["task_ratio"]
    for case in told["cases"]:
        assert case["error"] is None
        review = reviews[case["index"]]
        words, parts, signs = ([x for each in review for x in each[i]] for i in range(3))
        draws = iter([tuple(draw) for draw in case["draws"]])
        hidden = original.hidden_words(
            words, signs, draws, mask_id=tokenizer.mask_token_id,
            pieces=lambda word: tokenizer(word, add_special_tokens=False)["input_ids"],
            reviews=[sentences[0][0] for sentences in reviews],
        )  # fmt: skip
        is_polar = np.array(signs) != NEUTRAL
        chosen = hides(np.array([draw for *_, draw in hidden]), is_polar, options)
        compared.equal("chosen", chosen.tolist(), [asked for _, asked, _, _ in hidden])
        batch = sample_of(tokenizer, [(words, parts, signs)], length)
        n = batch.node_ids.shape[1]
        flat = [(i, asked, lost) for row, asked, lost, _ in hidden for i in row][: n - 2]
        marks = torch.zeros(2, 1, n, dtype=torch.bool)
        ids = batch.node_ids.clone()
        for node, (i, asked, lost) in enumerate(flat, start=1):
            ids[0, node] = i
            marks[:, 0, node] = torch.tensor([asked, lost])
        labels = batch.node_ids.masked_fill(~marks[0], IGNORE)
        marked = with_labels(batch.replace(node_ids=ids, node_labels=labels), marks[1])
        is_word = torch.ones_like(ids, dtype=torch.bool)
        is_word[0, [0, n - 1]] = False
        rating = int(float(told["stars"][case["index"]]))
        late = original.is_late(draws, told["task_ratio"])
        marked = with_rating(marked, is_word, rating, late)
        padding = length - n
        pads = [tokenizer.pad_token_id] * padding
        compared.equal("input ids", ids[0].tolist() + pads, case["input_ids"])
        assert case["tokens"][:n] == tokenizer.convert_ids_to_tokens(ids[0].tolist())
        compared.equal("attention_mask", [1] * n + [0] * padding, case["attention_mask"])
        compared.equal("segments", [0] * length, case["token_type_ids"])
        asked_words = [-1 if i == IGNORE else i for i in labels[0].tolist()] + [-1] * padding
        compared.equal("word labels", asked_words, case["masked_lm_labels"])
        assert marked.extra_labels is not None
        for name, empty in (*EMPTY.items(), (RATING, n_ratings)):
            found = shown(marked, name, empty, length)
            compared.equal(f"{name} ids", found, case[INPUTS[name]])
            row = marked.extra_labels[name][0, :, 0].tolist()
            found = [-1 if i == IGNORE else i for i in row] + [-1] * padding
            compared.equal(f"{name} labels", found, case[LABELS[name]])


# ---- model ------------------------------------------------------------------------------------
@torch.no_grad()
def test_states_scores_and_losses(
    folder: Path, model: KnowledgeForPreTraining, compared: Any
) -> None:
    batch, expected, meta = batch_of(folder), load(folder, "outputs"), read(folder, "meta")
    output, mask = model(batch), batch.node_mask
    states = {"embedding_output": output.hidden_states[0]}
    states |= {f"layer.{i}": state for i, state in enumerate(output.hidden_states[1:])}
    for name, value in states.items():
        compared.close(name, value[mask], expected[name][mask], atol=ATOL, rtol=RTOL)
    pooled = hosts.pooled(model.encoder.host, output.node_states)
    compared.close("pooled", pooled, expected["pooled"], atol=ATOL, rtol=RTOL)
    words = hosts.word_table(model.encoder.host).weight
    logits = model.objectives["mlm"].logits(output.node_states, words)
    n_rows = len(expected["lm_logits"])
    theirs = expected["lm_logits"][mask[:n_rows]]
    found = logits[:n_rows][mask[:n_rows]]
    compared.close("word scores", found, theirs, atol=ATOL, rtol=RTOL)
    for name, short in SHORT.items():
        scores = model.objectives["sentiment"].logits(name, output.node_states, model.encoder)
        theirs = expected[f"{short}_logits"][mask]
        compared.close(f"{name} scores", scores[mask], theirs, atol=ATOL, rtol=RTOL)
    for name, theirs_name in LOSSES.items():
        wanted = expected[f"loss.{theirs_name}"]
        compared.close(f"{name} loss", output.losses[name], wanted, atol=0, rtol=RTOL)
    total = torch.stack(list(output.losses.values())).sum()
    compared.close("total", total, expected["loss.total"], atol=0, rtol=RTOL)
    assert batch.extra_labels is not None
    late = (batch.extra_labels[RATING] != IGNORE).any(1)[:, 0]
    rows = {"late_supervision": int(late.sum()), "early_fusion": int((~late).sum())}
    compared.equal("rows", rows, meta["batch_rows"])
    told = [float(value) for value in meta["early_fusion_only_losses"]]
    early = (~late).nonzero()[:, 0]
    parts = [model(batch.take(early[: n + 1])).losses for n in range(len(early))]
    first = np.array([losses["mlm"].item() for losses in parts])
    losses = parts[int(np.abs(first - told[0]).argmin())]  # of how many rows is not told
    for name, theirs in zip(LOSSES, told, strict=True):
        wanted = 0.0 if math.isnan(theirs) else theirs  # theirs divides by no text
        compared.close("early fusion alone", losses[name], wanted, atol=0, rtol=RTOL)


def test_gradients(folder: Path, compared: Any) -> None:
    model, meta = new_model(folder), read(folder, "meta")
    torch.stack(list(model(batch_of(folder)).losses.values())).sum().backward()
    found = dict(model.named_parameters())
    for name, theirs in load(folder, "grads").items():
        gradient = found[ours(name)].grad
        assert gradient is not None
        atol = 1e-4 * float(theirs.abs().max())
        compared.close("gradients", gradient, theirs, atol=atol)
    state = [name for name in load(folder, "state_dict") if is_pretrained(name)]
    silent = sorted(name for name in state if found[ours(name)].grad is None)
    compared.equal("without gradient", silent, sorted(meta["parameters_without_gradient"]))
    assert all(meta["tied_same_tensor"].values())
    for theirs in meta["tied"].values():
        assert ours(theirs) in found


# ---- fine-tuning ------------------------------------------------------------------------------
def task_model(folder: Path, head: str, name: str, n_classes: int, kind: str) -> KnowledgeForTask:
    """Their body and one of their heads; a dense layer before the classes is our host's pooler."""
    encoder, state = new_encoder(folder), load(folder, "state_dict")
    body = {
        ours(k).removeprefix("encoder."): v for k, v in state.items() if k.startswith("roberta.")
    }
    encoder.load_state_dict(body)
    labels = [str(i) for i in range(n_classes)]
    model = KnowledgeForTask.of(encoder, head, labels, problem_type=kind).eval()
    with torch.no_grad():
        for part in ("weight", "bias"):
            last = "out_proj." if f"{name}.classifier.out_proj.{part}" in state else ""
            value = state[f"{name}.classifier.{last}{part}"]
            getattr(model.head.classes, part).copy_(value)
            if last:
                dense = state[f"{name}.classifier.dense.{part}"]
                getattr(encoder.host.pooler.dense, part).copy_(dense)
    return model


def task_batch(folder: Path) -> KnowledgeBatch:
    """The features of the first case."""
    rows = read(folder, "finetune_features")["cases"][0]["features"]
    columns = {
        name: torch.tensor([row[name] for row in rows])
        for name in ("input_ids", "input_mask", "pos_ids", "senti_ids", "polarity_ids")
    }
    extras = {
        PART: columns["pos_ids"], POLARITY: columns["senti_ids"], RATING: columns["polarity_ids"],
    }  # fmt: skip
    pad = read(folder, "tokenizer")["pad_token_id"]
    return with_ids(columns["input_ids"], columns["input_mask"], extras, pad)


@torch.no_grad()
def test_fine_tuning_heads(folder: Path, compared: Any) -> None:
    expected, batch = load(folder, "finetune_outputs"), task_batch(folder)
    features = read(folder, "finetune_features")["cases"][0]["features"]
    n = expected["sequence.logits"].shape[1]
    gold = torch.tensor([row["label_id"] for row in features])
    output = task_model(folder, "pooled", "sequence", n, SINGLE)(batch.replace(labels=gold))
    close(compared, "sequence", output.class_logits, output.losses["class"], expected)
    gold = expected["multilabel.labels"]
    output = task_model(folder, "pooled", "multilabel", n, MULTI)(batch.replace(labels=gold))
    shares = output.class_logits.sigmoid()
    close(compared, "multilabel", shares, output.losses["class"], expected)
    gold = ignored(expected["token.labels"]).masked_fill(~batch.node_mask, IGNORE)
    output = task_model(folder, "tagging", "token", n, TAGGING)(batch.replace(node_labels=gold))
    real, theirs = batch.node_mask, expected["token.logits"]
    found = output.class_logits[real]
    compared.close("token logits", found, theirs[real], atol=ATOL, rtol=RTOL)
    loss = output.losses["class"]
    compared.close("token loss", loss, expected["token.loss"], atol=0, rtol=RTOL)
    output = task_model(folder, "pooled", "choice", 1, SINGLE)(batch)
    scores = output.class_logits.view(expected["choice.logits"].shape)
    loss = torch.nn.functional.cross_entropy(scores, expected["choice.labels"])
    close(compared, "choice", scores, loss, expected)


def close(
    compared: Any, name: str, logits: Tensor, loss: Tensor, expected: dict[str, Tensor]
) -> None:
    compared.close(f"{name} logits", logits, expected[f"{name}.logits"], atol=ATOL, rtol=RTOL)
    compared.close(f"{name} loss", loss, expected[f"{name}.loss"], atol=0, rtol=RTOL)
