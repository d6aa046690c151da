"""QA-GNN with other widths, heads, layers, choices, relations, places and variants.

The expected numbers are those of the restatement in `tests.reference.original_subgraphs`.
"""

from __future__ import annotations

import string
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tests.parity.other_sizes import tensors
from tests.parity.subgraph import making
from tests.parity.subgraph.test_qagnn_preparation import bert, byte_level
from tests.reference import original_qagnn as preparation
from tests.reference import original_subgraphs as reference
from tests.reference.original_subgraphs import Network, Rows, State, Words

LM = {
    "vocab_size": 40, "hidden_size": 15, "num_hidden_layers": 3, "num_attention_heads": 5,
    "intermediate_size": 9, "max_position_embeddings": 111, "type_vocab_size": 1,
    "hidden_act": "gelu", "layer_norm_eps": 1e-5, "pad_token_id": 1,
}  # fmt: skip
MANY: dict[str, Any] = {
    "relations": ["usedfor", "isa", "hascontext", "relatedto", "partof"],
    "num_choice": 5, "num_questions": 4, "max_node_num": 7, "k": 2, "concept_dim": 12,
    "concept_in_dim": 9, "n_attention_head": 3, "fc_dim": 7, "n_fc_layer": 1, "sent_dim": 15,
    "max_seq_len": 41, "short_max_seq_len": 17, "lm": LM,
    "scorer": LM | {"num_hidden_layers": 1, "num_attention_heads": 3},
    "variants": {
        "narrow": {"k": 1, "concept_dim": 8, "concept_in_dim": 8, "n_attention_head": 1,
                   "n_fc_layer": 0},
        "deep": {"k": 4, "concept_dim": 4, "n_attention_head": 2, "n_fc_layer": 3},
    },
    "training": {"batch_size": 3, "mini_batch_size": 2, "encoder_lr": 1e-3, "decoder_lr": 2e-3,
                 "weight_decay": 0.05, "max_grad_norm": 0.4, "unfreeze_epoch": 2, "n_epochs": 3},
    "n_concepts": 23, "n_lines": 60, "hand": [5, 1, 2], "hand_edges": 9,
}  # fmt: skip
"""Rows that are cut, a batch that is not full, layers that differ from case to case."""
FEW: dict[str, Any] = MANY | {
    "relations": ["relatedto"], "num_choice": 2, "num_questions": 1, "max_node_num": 3, "k": 1,
    "n_fc_layer": 0, "variants": {}, "hand": [1], "hand_edges": 0, "n_concepts": 6, "n_lines": 7,
    "training": MANY["training"] | {"unfreeze_epoch": 0, "n_epochs": 2, "loss": "margin_rank"},
}  # fmt: skip
"""One question, hardly any edge, no variant, a graph of the context node alone without an edge."""
SEED = 5
NAME = "abdegiklmnorstu"


def make(folder: Path, sizes: Mapping[str, Any] = MANY) -> None:
    """Write every file of `folder` anew."""
    for path in folder.glob("*.*"):
        path.unlink()
    draws = torch.Generator().manual_seed(SEED)
    config = config_of(sizes)
    facts = prepared(sizes, config, draws)
    config["n_concept"] = len(facts["concepts"])
    write_examples(folder, facts, config)
    tensors.write(facts, folder, "graph_preparation")
    tensors.write(config, folder, "config")
    inputs = inputs_of(facts, config, sizes, draws)
    tensors.store(inputs, folder, "inputs")
    Numbers(folder, config, inputs, sizes).write()


def config_of(sizes: Mapping[str, Any]) -> dict[str, Any]:
    left_out = ("relations", "training", "n_concepts", "n_lines", "hand", "hand_edges")
    config = {key: value for key, value in sizes.items() if key not in left_out}
    letters = string.ascii_lowercase
    special = ["<s>", "<pad>", "</s>", "<unk>", *letters, "Ġ", ".", "?", "W", "<mask>"]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "?", ".", *letters]
    n_relations = len(sizes["relations"])
    return config | {
        "n_rel": n_relations, "n_etype": 2 * (n_relations + 2), "gat_heads": reference.HEADS,
        "n_ntype": reference.N_NODE_TYPES,
        "roberta_vocabulary": {piece: i for i, piece in enumerate(special)},
        "bert_vocabulary": [*pieces, *(f"##{letter}" for letter in letters)],
    }  # fmt: skip


# ---- preparation ---------------------------------------------------------------------------------
def prepared(
    sizes: Mapping[str, Any], config: Mapping[str, Any], draws: torch.Generator
) -> dict[str, Any]:
    """Lines of ConceptNet, its graph, and questions about its concepts; without relevance."""

    def pick(n: int) -> int:
        return int(torch.randint(n, (1,), generator=draws))

    names = ["".join(NAME[pick(len(NAME))] for _ in range(4 + pick(3))) for _ in
             range(sizes["n_concepts"])]  # fmt: skip
    names = [*dict.fromkeys(names), "person"]
    groups = [(group, *preparation.RELATIONS[group]) for group in sizes["relations"]]
    members = [name.lstrip("*") for group in groups for name in group]
    lines = [
        f"/a\t/r/{members[pick(len(members))]}\t/c/en/{names[pick(len(names))]}/n\t"
        f'/c/{"de" if not i % 9 else "en"}/{names[pick(len(names))]}\t{{"weight": 1.5}}'
        for i in range(sizes["n_lines"])
    ]
    taken = list(preparation.extract(lines))
    concepts = preparation.concepts(taken)
    edges = {
        name: preparation.edges(taken, concepts, sizes["relations"], pruned=name == "pruned")
        for name in ("pruned", "unpruned")
    }
    facts: dict[str, Any] = {
        "relations": sizes["relations"], "assertions": lines, "concepts": concepts,
        "extracted": [list(line) for line in taken], "graph_edges_src_dst_rel_weight": edges,
        "statements": [], "grounded": [], "examples": [], "other_neighbourhoods": {},
    }  # fmt: skip
    for question in range(config["num_questions"]):
        question_concepts = [concepts[pick(len(concepts))] for _ in range(1 + question % 3)]
        order = torch.randperm(len(concepts), generator=draws)
        choices = [concepts[i] for i in order[: config["num_choice"]].tolist()]
        facts["statements"].append({
            "id": f"q{question}", "answerKey": chr(ord("A") + pick(config["num_choice"])),
            **({"fact1": "some fact"} if question % 2 else {}),
            "question": {
                "stem": "What is it?" if question % 2 else "What may be there.",
                "choices": [{"label": chr(ord("A") + i), "text": choice}
                            for i, choice in enumerate(choices)],
            },
        })  # fmt: skip
        facts["grounded"] += [{"sent": "", "ans": choice, "qc": question_concepts, "ac": [choice]}
                              for choice in choices]  # fmt: skip
    return facts


def write_examples(folder: Path, facts: dict[str, Any], config: Mapping[str, Any]) -> None:
    """Nodes, edges and relevance of every question and choice; the scorer's weights as a file."""
    scorer = config["scorer"]
    shapes = making.language_model("roberta.", scorer, pooler=False)
    shapes |= making.linear("lm_head.dense", scorer["hidden_size"], scorer["hidden_size"])
    shapes |= making.norm("lm_head.layer_norm", scorer["hidden_size"])
    shapes["lm_head.bias"] = (scorer["vocab_size"],)
    state = making.random_state(shapes, 1, scorer["pad_token_id"])
    tensors.store(state, folder, "scorer_state_dict")
    pruned = facts["graph_edges_src_dst_rel_weight"]["pruned"]
    near = making.neighbours(pruned)
    triples = [(s, r, t) for s, t, r, _ in pruned if r < config["n_rel"]]
    numbers = {name: i for i, name in enumerate(facts["concepts"])}
    for number, grounded in enumerate(facts["grounded"]):
        question, choice = divmod(number, config["num_choice"])
        statement = facts["statements"][question]["question"]
        answer = {numbers[name] for name in grounded["ac"]}
        linked = {numbers[name] for name in grounded["qc"]} - answer
        extras = making.between(sorted(linked), sorted(answer), near)
        context = f"{statement['stem']} {statement['choices'][choice]['text']}.".lower()
        concepts = sorted(linked | answer | extras)
        texts = [context, *(f"{context} {facts['concepts'][i]}." for i in concepts)]
        ids = [tokens_of(text, config["roberta_vocabulary"]) for text in texts]
        scores = dict(zip([-1, *concepts], scores_of(state, ids, scorer), strict=True))
        in_order = sorted(extras, key=lambda i: -scores[i])
        facts["examples"].append(
            making.example_of(sorted(linked), sorted(answer), in_order, triples) | {
                "cid2score_high_to_low": sorted(map(list, scores.items()), key=lambda s: -s[1]),
                "scored_texts": texts, "scored_token_ids": ids,
            }
        )  # fmt: skip
        facts["other_neighbourhoods"][str(number)] = others_of(linked, answer, pruned, facts)


def others_of(
    question: set[int], answer: set[int], edges: Sequence[Any], facts: Mapping[str, Any]
) -> dict[str, list[int]]:
    near, named = making.neighbours(edges), question | answer
    pairs = [(q, a) for q in sorted(question) for a in sorted(answer)]
    around = {"1hop_neighbours": set().union(*(near.get(i, set()) for i in named))}
    around["2hop_qa_pair"] = making.common(pairs, near)
    around["2hop_all_pair"] = making.between(sorted(question), sorted(answer), near)
    first = [*sorted(question), *sorted(answer)]
    return {name: [*first, *sorted(more - named)] for name, more in around.items()}


def tokens_of(text: str, vocabulary: Mapping[str, int]) -> list[int]:
    middle = [vocabulary["Ġ" if char == " " else char] for char in text]
    return [vocabulary["<s>"], *middle, vocabulary["</s>"]]


@torch.no_grad()
def scores_of(state: State, ids: Sequence[list[int]], config: Mapping[str, Any]) -> list[float]:
    width, pad = max(map(len, ids)), config["pad_token_id"]
    rows = torch.tensor([row + [pad] * (width - len(row)) for row in ids])
    words = Words(rows, (rows != pad).long(), torch.zeros_like(rows), pad)
    scores: list[float] = reference.relevance(Network(state), words, config).tolist()
    return scores


# ---- inputs --------------------------------------------------------------------------------------
def inputs_of(
    facts: Mapping[str, Any], config: Mapping[str, Any], sizes: Mapping[str, Any],
    draws: torch.Generator,
) -> dict[str, Tensor]:  # fmt: skip
    rows = [making.loaded(example, config["max_node_num"], config["n_rel"])
            for example in facts["examples"]]  # fmt: skip
    inputs = making.stacked(rows, config["num_choice"])
    whole = making.rows_from(inputs)
    letters = [ord(statement["answerKey"]) - ord("A") for statement in facts["statements"]]
    inputs |= {
        "batched_edge_index": whole.index, "batched_edge_type": whole.edge_types,
        "labels": torch.tensor(letters),
        "sent_vecs": torch.randn(len(rows), config["sent_dim"], generator=draws),
    }  # fmt: skip
    return inputs | texts_of(facts, config) | hand(config, sizes, draws)


def texts_of(facts: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Tensor]:
    names = ("input_ids", "input_mask", "segment_ids", "output_mask")
    texts: dict[str, Tensor] = {}
    with tempfile.TemporaryDirectory() as temporary:
        kinds = {
            "roberta": (byte_level(config["roberta_vocabulary"]), config["max_seq_len"]),
            "roberta_short": (
                byte_level(config["roberta_vocabulary"]), config["short_max_seq_len"],
            ),
            "bert": (bert(config["bert_vocabulary"], Path(temporary)), config["max_seq_len"]),
        }  # fmt: skip
        for kind, (tokenizer, length) in kinds.items():
            rows = [
                preparation.text_row(
                    tokenizer, statement, choice["text"], length, roberta=kind != "bert"
                )
                for statement in facts["statements"]
                for choice in statement["question"]["choices"]
            ]
            for name, column in zip(names, zip(*rows, strict=True), strict=True):
                value = making.by_question(torch.tensor(column), config["num_choice"])
                texts[f"text.{kind}.{name}"] = value
    return texts


def hand(
    config: Mapping[str, Any], sizes: Mapping[str, Any], draws: torch.Generator
) -> dict[str, Tensor]:
    """Rows of so many nodes, some edges twice, loops among them; and states for one layer."""
    lengths = torch.tensor(sizes["hand"])
    n_rows, n_places = len(lengths), int(lengths.max()) + 2
    inside = torch.arange(n_places) < lengths[:, None]
    types = torch.randint(0, reference.CONTEXT, (n_rows, n_places), generator=draws)
    types = types.masked_fill(~inside, 2)
    types[:, 0] = reference.CONTEXT
    ids = torch.randint(1, config["n_concept"] + 1, (n_rows, n_places), generator=draws)
    ids = ids.masked_fill(~inside, 1)
    ids[:, 0] = 0
    scores = torch.randn(n_rows, n_places, 1, generator=draws) * inside[..., None]
    places = torch.nonzero(inside.flatten())[:, 0]
    pairs = [
        (one, other) for one in places.tolist() for other in places.tolist()
        if one // n_places == other // n_places
    ]  # fmt: skip
    n_edges = sizes["hand_edges"]
    chosen = torch.randint(len(pairs), (n_edges,), generator=draws).tolist()
    half = [pairs[i] for i in [*chosen, *chosen[:2]]]
    kinds = torch.randint(config["n_rel"] + 2, (len(half),), generator=draws)
    forward = torch.tensor(half, dtype=torch.int64).view(-1, 2).T
    width = config["concept_dim"]
    spots = {
        f"layer.{name}": torch.randn(n_rows * n_places, width, generator=draws)
        for name in ("x", "node_feature_extra", "coefficient")
    }
    return spots | {
        "hand.concept_ids": ids, "hand.node_type_ids": types, "hand.node_scores": scores,
        "hand.adj_lengths": lengths,
        "hand.edge_index": torch.cat([forward, forward.flip(0)], 1),
        "hand.edge_type": torch.cat([kinds, kinds + config["n_etype"] // 2]),
        "hand.sent_vecs": torch.randn(n_rows, config["sent_dim"], generator=draws),
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
        self.settings = {
            name: {**config, **variant}
            for name, variant in (("main", {}), *config["variants"].items())
        }
        self.states = {
            name: making.random_state(self._shapes(settings), 10 + i)
            for i, (name, settings) in enumerate(self.settings.items())
        }
        lm = config["lm"]
        self.lm = making.random_state(making.language_model("", lm), 9, lm["pad_token_id"])
        text = {name: inputs[f"text.roberta.{name}"].flatten(0, 1)
                for name in ("input_ids", "input_mask", "segment_ids")}  # fmt: skip
        self.words = Words(*text.values(), lm["pad_token_id"])
        self.rows, self.labels = making.rows_from(inputs), inputs["labels"]
        self.outputs: dict[torch.dtype, State] = {torch.float64: {}, torch.float32: {}}
        self.grads: State = {}

    @staticmethod
    def _shapes(settings: Mapping[str, Any]) -> making.Shapes:
        sentence = settings["sent_dim"]
        return (
            making.layers_of("gnn.", settings)
            | making.outside("gnn.", "", settings, sentence)
            | making.linear("svec2nvec", sentence, settings["concept_dim"])
        )

    def write(self) -> None:
        files: dict[str, Mapping[str, Tensor]] = {
            f"state_dict_{name}": state for name, state in self.states.items()
        }
        for dtype in self.outputs:
            for name in (*self.settings, "hand", "no_scores"):
                self._case(name, dtype)
            self._whole(dtype)
        one_hot = self.rows.one_hot(self.config["n_etype"]).float()
        files |= {
            "lm_state_dict": self.lm, "outputs_f64": self.outputs[torch.float64],
            "outputs_f32": self.outputs[torch.float32], "grads_f64": self.grads,
            "layer_f64": self._layer(), "training": self._training(),
            "edge_features": {"main.edge_features_one_hot": one_hot},
        }  # fmt: skip
        making.store(self.folder, files)

    def _net(self, name: str, dtype: torch.dtype, *, training: bool = False) -> Network:
        state = self.states.get(name, self.states["main"])
        heads = self.settings.get(name, self.config)["n_attention_head"]
        return Network(making.cast(state, dtype), training, heads)

    def _case(self, name: str, dtype: torch.dtype) -> None:
        rows, sentence, n_choices = self.rows, self.inputs["sent_vecs"], self.config["num_choice"]
        if name == "hand":
            rows, sentence, n_choices = self._hand(), self.inputs["hand.sent_vecs"], 1
        if name == "no_scores":
            rows = Rows(rows.ids, rows.types, rows.scores * 0, rows.lengths, rows.index,
                        rows.edge_types)  # fmt: skip
        for training in (False, True):
            mode = "train" if training else "eval"
            net = self._net(name, dtype, training=training)
            weights = making.leaves(net.state)
            vector = sentence.to(dtype).requires_grad_()
            reference.qagnn(net, _of(rows, dtype), vector, n_choices, self.config["n_etype"])
            seen = net.values if name == "hand" else making.with_losses(net, self.labels)
            seen = {"logits": seen["logits"]} if name == "no_scores" else seen
            changed = making.after(net) if training and name != "no_scores" else {}
            self.outputs[dtype] |= tensors.with_prefix(seen | changed, f"{name}.{mode}.")
            if dtype == torch.float64 and name in self.settings:
                seen["loss.cross_entropy"].backward()
                of_case = making.grads_of(weights, f"{name}.{mode}.cross_entropy.")
                self.grads |= of_case if not training else dict(list(of_case.items())[::2])

    def _hand(self) -> Rows:
        part = tensors.part(self.inputs, "hand.")
        return Rows(
            part["concept_ids"], part["node_type_ids"], part["node_scores"][..., 0],
            part["adj_lengths"], part["edge_index"], part["edge_type"],
        )  # fmt: skip

    def _whole(self, dtype: torch.dtype) -> None:
        net, lm = self._net("main", dtype), Network(making.cast(self.lm, dtype))
        weights = tensors.with_prefix(making.leaves(lm.state), "encoder.module.")
        weights |= tensors.with_prefix(making.leaves(net.state), "decoder.")
        outputs, prefix = self.outputs[dtype], "with_lm.eval."
        for layer in range(self.config["lm"]["num_hidden_layers"]):
            self._forward(net, lm, slice(None), layer)
            outputs[f"{prefix}encoder_layer_{layer}.logits"] = net.values["logits"]
        states, sentence = self._forward(net, lm, slice(None), -1)
        seen = making.with_losses(net, self.labels)
        kept = ("logits", "loss.cross_entropy")
        outputs |= {f"{prefix}{name}": seen[name] for name in kept}
        outputs |= {f"{prefix}last_hidden": states[-1], f"{prefix}sent_vecs": sentence}
        if dtype == torch.float64:
            seen["loss.cross_entropy"].backward()
            self.grads |= making.grads_of(weights, f"{prefix}cross_entropy.")

    def _forward(
        self, net: Network, lm: Network, questions: slice, layer: int = -1
    ) -> tuple[list[Tensor], Tensor]:
        """The language model's states and its sentence vectors; logits are in `net.values`."""
        n_choices = self.config["num_choice"]
        words = self.words
        if questions != slice(None):
            node_rows = slice(questions.start * n_choices, questions.stop * n_choices)
            words = Words(
                words.ids[node_rows], words.mask[node_rows], words.segments[node_rows], words.pad_id
            )
        states = reference.hidden_states(lm, words, self.config["lm"])
        sentence = lm.linear("pooler.dense", states[layer][:, 0]).tanh()
        rows = _of(making.rows_from(self.inputs, questions), sentence.dtype)
        reference.qagnn(net, rows, sentence, n_choices, self.config["n_etype"])
        return states, sentence

    def _layer(self) -> State:
        """The first layer alone, on the graph made by hand."""
        net, rows = self._net("main", torch.float64), self._hand()
        weights = making.leaves(net.state)
        x, extra = (
            self.inputs[f"layer.{name}"].double().requires_grad_()
            for name in ("x", "node_feature_extra")
        )
        one_hot = rows.one_hot(self.config["n_etype"]).double()
        edges = net.normed_mlp("gnn.edge_encoder", one_hot)
        layer = net.graph_layer("gnn.gnn_layers.0", x, extra, edges, rows.with_loops())
        (layer["output"] * self.inputs["layer.coefficient"].double()).sum().backward()
        grads = {
            name.removeprefix("gnn.gnn_layers.0.").removeprefix("gnn."): value.grad
            for name, value in weights.items()
            if value.grad is not None
        } | {"x": x.grad, "node_feature_extra": extra.grad}
        return {
            "attention": layer["attention"], "output": layer["output"],
            "edge_index_with_loops": rows.with_loops(),
            **{f"grad.{name}": grad for name, grad in grads.items() if grad is not None},
        }  # fmt: skip

    def _training(self) -> State:
        """Weights after the first and the last epoch; the rest is in training.json."""
        net = self._net("main", torch.float32, training=True)
        lm = Network({k: v.clone() for k, v in self.lm.items()})
        state = tensors.with_prefix(net.state, "decoder.")
        state |= tensors.with_prefix(lm.state, "encoder.module.")
        settings = {"optim": "radam", "lr_schedule": "fixed", "freeze_ent_emb": True,
                    "loss": "cross_entropy", **self.sizes["training"]}  # fmt: skip

        def forward(questions: slice, *, training: bool = True) -> Tensor:
            net.training = training
            net.state = tensors.part(state, "decoder.")
            lm.state = tensors.part(state, "encoder.module.")
            self._forward(net, lm, questions)
            state.update(tensors.with_prefix(net.state, "decoder."))
            return net.values["logits"]

        stored: State = {}
        records, log, table = (
            [],
            [["step", "dev_acc", "test_acc"]],
            "decoder.concept_emb.emb.weight",
        )
        for epoch, of_epoch in enumerate(
            making.epochs(
                state, settings, self.labels, forward, lambda name: "encoder.module" in name, table
            )
        ):
            records += of_epoch
            with torch.no_grad():
                chosen = forward(slice(None), training=False).argmax(1)
            accuracy = str(float((chosen == self.labels).double().mean()))
            log.append([str(epoch), accuracy, accuracy])
            if epoch in (0, settings["n_epochs"] - 1):
                copies = {k: v.detach().clone() for k, v in state.items() if k != table}
                stored |= tensors.with_prefix(copies, f"epoch{epoch}.")
        letters = [f"q{i},{chr(ord('A') + choice)}" for i, choice in enumerate(chosen.tolist())]
        tensors.write(
            {"settings": settings, "micro_batches_logits_labels_loss": records,
             "accuracy_log": log, "predictions_last_epoch": letters},
            self.folder, "training",
        )  # fmt: skip
        return stored


def _of(rows: Rows, dtype: torch.dtype) -> Rows:
    return Rows(rows.ids, rows.types, rows.scores.to(dtype), rows.lengths, rows.index,
                rows.edge_types)  # fmt: skip
