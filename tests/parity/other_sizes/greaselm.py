"""GreaseLM with other widths, heads, layers, choices, relations, places, variants, and a BERT.

The expected numbers are those of the restatement in `tests.reference.original_subgraphs`.
"""

from __future__ import annotations

import string
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tests.parity.other_sizes import tensors
from tests.parity.subgraph import making
from tests.parity.subgraph.test_qagnn_preparation import bert, byte_level
from tests.reference import original_subgraphs as reference
from tests.reference.original_subgraphs import Network, State, Words

BODY, ENCODER = "lmgnn.mp.", "lmgnn.mp.encoder."
TABLE = "lmgnn.concept_emb.emb.weight"
MANY: dict[str, Any] = {
    "lm": "roberta", "n_rel": 5, "max_node_num": 6, "num_choice": 4, "num_questions": 3, "k": 3,
    "concept_dim": 12, "concept_in_dim": 12, "n_attention_head": 3, "fc_dim": 5, "n_fc_layer": 1,
    "ie_dim": 7, "ie_layer_num": 2, "sep_ie_layers": True, "info_exchange": "every-other-layer",
    "max_seq_len": 37, "short_max_seq_len": 15, "n_concept": 14,
    "lm_config": {"vocab_size": 40, "hidden_size": 15, "num_hidden_layers": 3,
                  "num_attention_heads": 5, "intermediate_size": 9, "type_vocab_size": 1,
                  "max_position_embeddings": 41, "hidden_act": "gelu", "layer_norm_eps": 1e-5,
                  "pad_token_id": 1},
    "variants": {
        "one_fused": {"k": 1}, "one_hidden": {"ie_layer_num": 1},
        "shared": {"sep_ie_layers": False}, "all_mixed": {"info_exchange": True},
        "narrow_in": {"concept_in_dim": 6},
        "plain_score": {"n_fc_layer": 0}, "joined": {"n_etype": 2 * (5 + 3)},
    },
    "training": {"batch_size": 3, "mini_batch_size": 2, "encoder_lr": 1e-3, "decoder_lr": 2e-3,
                 "weight_decay": 0.05, "max_grad_norm": 0.4, "unfreeze_epoch": 1, "n_epochs": 3},
    "evaluated_at_once": 2, "shown_tokens": 5, "layer_ids": [0, 2],
}  # fmt: skip
"""Main is what a variant of the committed folder is, and the variants have fewer weights."""
FEW: dict[str, Any] = MANY | {
    "lm": "bert", "n_rel": 1, "max_node_num": 2, "num_choice": 2, "num_questions": 1, "k": 1,
    "concept_in_dim": 5, "n_fc_layer": 0, "ie_layer_num": 0, "sep_ie_layers": False,
    "info_exchange": True, "variants": {}, "n_concept": 4, "shown_tokens": 99,
    "training": MANY["training"] | {"unfreeze_epoch": 0, "n_epochs": 2, "loss": "margin_rank"},
    "lm_config": MANY["lm_config"] | {"type_vocab_size": 2, "pad_token_id": 0, "vocab_size": 59,
                                      "num_hidden_layers": 2},
}  # fmt: skip
"""One question on a BERT, one concept a choice, no edge between concepts, no variant."""
SEED = 3
OTHER_FIELDS = ("training", "evaluated_at_once", "shown_tokens", "layer_ids")


def make(folder: Path, sizes: Mapping[str, Any] = MANY) -> None:
    """Write every file of `folder` anew."""
    for path in folder.glob("*.*"):
        path.unlink()
    draws = torch.Generator().manual_seed(SEED)
    config = config_of(sizes)
    examples = examples_of(config, draws)
    inputs = inputs_of(examples, config)
    tensors.write(config, folder, "config")
    tensors.write(examples, folder, "examples")
    tensors.store(inputs, folder, "inputs")
    Numbers(folder, config, inputs, sizes).write()


def config_of(sizes: Mapping[str, Any]) -> dict[str, Any]:
    config = {key: value for key, value in sizes.items() if key not in OTHER_FIELDS}
    letters = string.ascii_lowercase
    vocabulary: Any = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "?", ".", *letters]
    vocabulary += [f"##{letter}" for letter in letters]
    if sizes["lm"] == "roberta":
        pieces = ["<s>", "<pad>", "</s>", "<unk>", *letters, "Ġ", ".", "?", "W", "<mask>"]
        vocabulary = {piece: i for i, piece in enumerate(pieces)}
    lm = config["lm_config"]
    return config | {
        "n_etype": 2 * (config["n_rel"] + 2), "gat_heads": reference.HEADS,
        "n_ntype": reference.N_NODE_TYPES, "vocabulary": vocabulary,
        "num_lm_layers": lm["num_hidden_layers"], "lm_hidden": lm["hidden_size"],
    }  # fmt: skip


def examples_of(config: Mapping[str, Any], draws: torch.Generator) -> dict[str, Any]:
    """Statements and their graphs: few concepts and many, with and without direct edges."""

    def pick(n: int) -> int:
        return int(torch.randint(n, (1,), generator=draws))

    n_concepts, n_choices = config["n_concept"], config["num_choice"]
    facts: dict[str, Any] = {
        "relations": [f"relation{i}" for i in range(config["n_rel"])], "statements": [],
        "examples": [],
    }  # fmt: skip
    letters = string.ascii_lowercase
    for question in range(config["num_questions"]):
        for choice in range(n_choices):
            order = torch.randperm(n_concepts, generator=draws).tolist()
            n_linked, n_extra = 1 + pick(3), pick(n_concepts - 4) if n_concepts > 4 else 0
            if config["max_node_num"] == 2:
                n_linked, n_extra = 1, 0
            linked, extras = order[:n_linked], order[n_linked : n_linked + n_extra]
            n_question = pick(n_linked + 1)
            triples = [
                (order[pick(n_concepts)], pick(config["n_rel"]), order[pick(n_concepts)])
                for _ in range(0 if n_linked == 1 else 4 * (choice + 1))
            ]
            example = making.example_of(linked[:n_question], linked[n_question:], extras, triples)
            scores = [[i, -float(pick(90))] for i in (-1, *example["concepts"])]
            facts["examples"].append(example | {"cid2score_high_to_low": scores})
        fact = {"fact1": "some fact"} if question % 2 else {}
        facts["statements"].append({
            "id": f"q{question}", "answerKey": chr(ord("A") + pick(n_choices)), **fact,
            "question": {
                "stem": "What is it?" if question % 2 else "What may be there.",
                "choices": [{"label": chr(ord("A") + i), "text": letters[i : i + 3 + 9 * (i == 1)]}
                            for i in range(n_choices)],
            },
        })  # fmt: skip
    return facts


def inputs_of(examples: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Tensor]:
    n_places, n_choices = config["max_node_num"], config["num_choice"]
    rows = [making.loaded(example, n_places, config["n_rel"]) for example in examples["examples"]]
    inputs = making.stacked(rows, n_choices)
    letters = [ord(statement["answerKey"]) - ord("A") for statement in examples["statements"]]
    special = torch.zeros_like(inputs["concept_ids"], dtype=torch.bool)
    special[..., 0] = True
    inputs |= {"labels": torch.tensor(letters), "special_nodes_mask": special}
    for name, variant in config["variants"].items():
        if variant.get("n_etype", config["n_etype"]) == config["n_etype"]:
            continue
        for i, example in enumerate(examples["examples"]):
            row = making.loaded(example, n_places, config["n_rel"], connect_all=True)
            key = "{}.{}".format(*divmod(i, n_choices))
            inputs |= making.edges_by_name(row, key, f"{name}.")
    return inputs | texts_of(examples, config)


def texts_of(examples: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Tensor]:
    pairs = [
        (f"{fact} {s['question']['stem']}" if (fact := s.get("fact1")) else s["question"]["stem"],
         f" {choice['text']}")
        for s in examples["statements"]
        for choice in s["question"]["choices"]
    ]  # fmt: skip
    texts: dict[str, Tensor] = {}
    with tempfile.TemporaryDirectory() as temporary:
        vocabulary = config["vocabulary"]
        tokenizer = (
            byte_level(vocabulary) if isinstance(vocabulary, dict)
            else bert(vocabulary, Path(temporary))
        )  # fmt: skip
        lengths = (("text", "max_seq_len"), ("text_short", "short_max_seq_len"))
        for kind, length in lengths:
            rows = [text_row(tokenizer, *pair, config[length]) for pair in pairs]
            for name in rows[0]:
                value = torch.tensor([row[name] for row in rows])
                texts[f"{kind}.{name}"] = making.by_question(value, config["num_choice"])
    return texts


def text_row(tokenizer: Any, first: str, second: str, length: int) -> dict[str, list[Any]]:
    """A pair whose longer text loses its last token until both fit; ties: the second."""
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in (first, second)]
    is_roberta = tokenizer.sep_token == "</s>"
    start, end, pad = (getattr(tokenizer, f"{n}_token_id") for n in ("cls", "sep", "pad"))
    middle = [end, end] if is_roberta else [end]
    while sum(map(len, ids)) + 2 + len(middle) > length:
        ids[len(ids[0]) <= len(ids[1])].pop()
    row = [start, *ids[0], *middle, *ids[1], end]
    n_first, n_pads = 1 + len(ids[0]) + len(middle), length - len(row)
    segments = [int(i >= n_first and not is_roberta) for i in range(len(row))]
    special = [i in (start, end) for i in row]
    return {
        "input_ids": row + [pad] * n_pads, "input_mask": [1] * len(row) + [0] * n_pads,
        "segment_ids": segments + [0] * n_pads, "output_mask": special + [True] * n_pads,
    }  # fmt: skip


# ---- numbers -------------------------------------------------------------------------------------
class Numbers:
    """Weights, and what the restatement computes of them."""

    def __init__(
        self,
        folder: Path,
        config: Mapping[str, Any],
        inputs: Mapping[str, Tensor],
        sizes: Mapping[str, Any],
    ) -> None:
        self.folder, self.config, self.inputs, self.sizes = folder, config, inputs, sizes
        self.settings: dict[str, dict[str, Any]] = {"main": dict(config)}
        self.settings |= {
            name: {**config, **changes} for name, changes in config["variants"].items()
        }
        self.labels = inputs["labels"]
        self.outputs: dict[torch.dtype, State] = {torch.float64: {}, torch.float32: {}}
        self.grads: State = {}
        self.states = self._states()

    def _states(self) -> dict[str, State]:
        """Of every case; a variant has the main case's weights of the same name and shape."""
        states: dict[str, State] = {}
        for i, (name, settings) in enumerate(self.settings.items()):
            state = making.random_state(
                shapes_of(settings), 20 + i, settings["lm_config"]["pad_token_id"]
            )
            main = states.get("main", {})
            states[name] = {
                key: main[key] if key in main and main[key].shape == value.shape else value
                for key, value in state.items()
            }
        return states

    def write(self) -> None:
        main = self.states["main"]
        files: dict[str, Mapping[str, Tensor]] = {"state_dict_main": main}
        for name, state in self.states.items():
            changed = {k: v for k, v in state.items() if main.get(k) is not v}
            if changed:
                files[f"state_dict_only_{name}"] = changed
        for dtype in self.outputs:
            for name in self.settings:
                self._case(name, dtype)
        for layer in self.sizes["layer_ids"]:
            net = self._net("main", torch.float32)
            self._forward(net, self.settings["main"], layer_id=layer)
            logits = net.values["logits"]
            self.outputs[torch.float32][f"layer_id_{layer}.eval.logits"] = logits
        files |= {
            "outputs_f64": self.outputs[torch.float64], "outputs_f32": self.outputs[torch.float32],
            "grads_f64": self.grads, "training": self._training(),
        }  # fmt: skip
        making.store(self.folder, files)

    def _net(self, name: str, dtype: torch.dtype, *, training: bool = False) -> Network:
        heads = self.settings[name]["n_attention_head"]
        return Network(making.cast(self.states[name], dtype), training, heads)

    def _forward(
        self,
        net: Network,
        settings: Mapping[str, Any],
        questions: slice = slice(None),
        *,
        prefix: str = "",
        layer_id: int = -1,
    ) -> Tensor:
        lm = settings["lm_config"]
        ids, mask, segments = (
            self.inputs[f"text.{name}"][questions].flatten(0, 1)
            for name in ("input_ids", "input_mask", "segment_ids")
        )
        words = Words(ids, mask, segments, lm["pad_token_id"], settings["lm"])
        rows = making.rows_from(self.inputs, questions, prefix=prefix)
        dtype = net.state[TABLE].dtype
        rows = replace(rows, scores=rows.scores.to(dtype))
        return reference.greaselm(net, rows, words, settings, layer_id)

    def _case(self, name: str, dtype: torch.dtype) -> None:
        settings = self.settings[name]
        prefix = f"{name}." if f"{name}.edge_type.0.0" in self.inputs else ""
        for training in (False, True):
            net = self._net(name, dtype, training=training)
            weights, mode = making.leaves(net.state), "train" if training else "eval"
            self._forward(net, settings, prefix=prefix)
            seen = making.with_losses(net, self.labels)
            stored = {k: self._first_tokens(k, v) for k, v in seen.items()}
            changed = making.after(net) if training else {}
            self.outputs[dtype] |= tensors.with_prefix(stored | changed, f"{name}.{mode}.")
            if dtype == torch.float64:
                seen["loss.cross_entropy"].backward()
                of_case = making.grads_of(weights, f"{name}.{mode}.")
                self.grads |= of_case if not training else dict(list(of_case.items())[::3])

    def _first_tokens(self, name: str, value: Tensor) -> Tensor:
        is_part = name == "lm.embedding" or name.endswith("output_before_mixing")
        return value[:, : self.sizes["shown_tokens"]] if is_part else value

    def _training(self) -> State:
        """Weights after the first and the last epoch; the rest is in training.json."""
        net, main = self._net("main", torch.float32, training=True), self.settings["main"]
        settings = {"optim": "radam", "lr_schedule": "fixed", "freeze_ent_emb": True,
                    "loss": "cross_entropy", **self.sizes["training"]}  # fmt: skip
        slow = making.language_model(BODY, main["lm_config"])
        stored: State = {}
        records: list[Any] = []
        log = [["epoch", "step", "dev_acc", "test_acc"]]

        def forward(questions: slice) -> Tensor:
            net.training = True
            return self._forward(net, main, questions)

        run = making.epochs(net.state, settings, self.labels, forward, slow.__contains__, TABLE)
        for epoch, of_epoch in enumerate(run):
            evaluations, accuracy = self._evaluated(net, reference.LOSSES[settings["loss"]])
            records += [*of_epoch, *evaluations, *evaluations]
            log.append([str(epoch), "0", f"{accuracy:.4f}", f"{accuracy:.4f}"])
            if epoch in (0, settings["n_epochs"] - 1):
                copies = {k: v.detach().clone() for k, v in net.state.items() if k != TABLE}
                stored |= tensors.with_prefix(copies, f"epoch{epoch}.")
        tensors.write(
            {"settings": settings, "log": log, "small_learning_rate_names": [*slow],
             "micro_batches_and_evaluations_logits_labels_loss": records},
            self.folder, "training",
        )  # fmt: skip
        return stored

    @torch.no_grad()
    def _evaluated(
        self, net: Network, loss: Callable[[Tensor, Tensor], Tensor]
    ) -> tuple[list[list[Any]], float]:
        """Records of one split, some questions at a time, and its accuracy."""
        net.training, size, n_right = False, self.sizes["evaluated_at_once"], 0
        records: list[list[Any]] = []
        for first in range(0, len(self.labels), size):
            questions = slice(first, min(first + size, len(self.labels)))
            gold, main = self.labels[questions], self.settings["main"]
            logits = self._forward(net, main, questions)
            n_right += int((logits.argmax(1) == gold).sum())
            records.append([logits.tolist(), gold.tolist(), loss(logits, gold).item()])
        return records, n_right / len(self.labels)


def shapes_of(settings: Mapping[str, Any]) -> making.Shapes:
    lm = settings["lm_config"]
    shapes = making.layers_of(ENCODER, settings) | making.language_model(BODY, lm)
    shapes |= making.outside(BODY, "lmgnn.", settings, lm["hidden_size"])
    both = lm["hidden_size"] + settings["concept_dim"]
    widths = [both, *[settings["ie_dim"]] * settings["ie_layer_num"], both]
    names = (
        [f"{ENCODER}ie_layers.{i}" for i in range(settings["k"])]
        if settings["sep_ie_layers"]
        else [f"{ENCODER}ie_layer"]
    )
    for name in names:
        shapes |= making.mlp(name, widths, normed=False)
    return shapes
