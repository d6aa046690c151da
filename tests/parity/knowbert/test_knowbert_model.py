"""KnowBERT's model half against the numbers of the original implementation.

Padded nodes see all real nodes in the original and only themselves here, so whole passes are
compared at real nodes; each KAR is compared at every node on the original's own input to it, with
every node seeing every mention. A row of padded mentions alone attends to them evenly in the
original and to the one empty mention here: the share of padding is compared, and all vectors are.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save
from torch import Tensor, nn

from kept import hosts
from kept.batches import IGNORE, KnowledgeBatch, Visibility
from kept.convert import knowbert as keys
from kept.convert.tables import to_ours
from kept.encoders.knowbert import KnowBERTConfig
from kept.layers.entity_linker import start_as_inverse
from kept.layers.mentions import mentions_of
from kept.objectives.entity_linking import margin_loss, softmax_loss
from kept.objectives.model import KnowledgeForPreTraining

METHOD = "knowbert"
ATOL = 1e-5
PARAMETERS = {
    "case": lambda folder: [
        (path.parent.name, attention)
        for path in sorted(folder.glob("*/config.json"))
        for attention in ("eager", "sdpa")
    ]
}
"""One model per sub-folder, by both attention paths of the host."""


def load(folder: Path, name: str) -> dict[str, Tensor]:
    return load_file(folder / f"{name}.safetensors")


def allennlp(settings: dict[str, Any]) -> dict[str, Any]:
    """The golden settings as `model` of an AllenNLP configuration."""
    return {
        "soldered_layers": settings["soldered_layers"],
        "soldered_kgs": {
            name: {
                "entity_linker": {
                    "namespace": kar["namespace"],
                    "loss_type": kar["loss_type"],
                    "margin": kar["margin"],
                    "decode_threshold": kar["decode_threshold"],
                    "span_encoder_config": kar["span_encoder_config"],
                },
                "span_attention_config": kar["span_attention_config"],
            }
            for name, kar in settings["kars"].items()
        },
    }


def names_of(settings: dict[str, Any]) -> dict[str, list[str]]:
    """Entity names by KAR."""
    kars = settings["kars"]
    return {name: settings["entity_vocab"][kars[name]["namespace"]] for name in kars}


def config_of(settings: dict[str, Any], state: dict[str, Tensor]) -> KnowBERTConfig:
    heads = settings["bert"]["num_attention_heads"]
    return keys.original_config(allennlp(settings), state, n_attention_heads=heads)


class Case:
    """A golden folder, our model with its weights, and its batch in our form."""

    def __init__(self, folder: Path, attention: str) -> None:
        self.folder = folder
        self.settings = json.loads((folder / "config.json").read_text())
        self.names = names_of(self.settings)
        self.state = load(folder, "state_dict")
        config = config_of(self.settings, self.state)
        self.model = keys.from_original(self.state, config, self.names).eval()
        self.model.set_attn_implementation(attention)
        assert self.model.encoder.host.config._attn_implementation == attention
        self.inputs, self.outputs = load(folder, "inputs"), load(folder, "outputs")
        self.specs = self.model.encoder.specs
        self.batch = self.batch_of(self.inputs)

    def rows(self, ids: Tensor, name: str) -> Tensor:
        """Our rows of the original's entity ids."""
        return torch.argsort(keys.rows_of(self.names[name]))[ids]

    def batch_of(self, inputs: dict[str, Tensor]) -> KnowledgeBatch:
        """All graphs' mentions side by side, padding marked as its graph's."""
        parts = [self._mentions(inputs, spec.name, i) for i, spec in enumerate(self.specs)]
        spans, ids, priors, labels, graphs = (torch.cat(p, 1) for p in zip(*parts, strict=True))
        real = inputs["tokens"] > 0
        n_node = real.shape[1]
        visible = real[:, :, None] & real[:, None] | torch.eye(n_node, dtype=torch.bool)
        nsp = inputs["next_sentence_label"]
        lm = inputs["lm_labels"]
        return KnowledgeBatch(
            node_ids=inputs["tokens"],
            node_kinds=torch.zeros_like(inputs["tokens"]),
            node_mask=real,
            positions=torch.arange(n_node).repeat(len(real), 1),
            segment_ids=inputs["segment_ids"],
            visibility=Visibility(visible),
            mention_spans=spans,
            mention_graphs=graphs if len(parts) > 1 else None,
            mention_labels=labels,
            candidate_ids=ids,
            candidate_priors=priors,
            node_labels=lm.where(lm != 0, IGNORE),
            pair_labels=nsp.where(nsp >= 0, IGNORE),
        )

    def _mentions(self, inputs: dict[str, Tensor], name: str, number: int) -> list[Tensor]:
        candidates = {k: inputs[f"candidates.{name}.candidate_{k}"] for k in ("spans", "entities")}
        spans = candidates["spans"] + torch.tensor([0, 1])
        spans[candidates["spans"][..., 0] < 0] = 0
        gold = inputs[f"gold_entities.{name}"][..., 0]
        labels = self.rows(gold, name).where(gold > 0, IGNORE)
        priors = inputs[f"candidates.{name}.candidate_entity_priors"]
        ids = self.rows(candidates["entities"], name)
        return [spans, ids, priors, labels, torch.full_like(labels, number)]


@pytest.fixture(scope="module")
def case(folder: Path, request: pytest.FixtureRequest) -> Case:
    return Case(folder / request.param[0], request.param[1])


def test_states_logits_and_losses(case: Case, compared: Any) -> None:
    expected, batch, model = case.outputs, case.batch, case.model
    before: list[Tensor] = []
    hooks = [
        layer.register_forward_hook(lambda _m, _i, out: before.append(out))
        for layer in hosts.layers(model.encoder.host)
    ]
    with torch.no_grad():
        output = model(batch)
        logits = {
            "mlm_logits": model.objectives["mlm"].logits(
                output.node_states, hosts.word_table(model.encoder.host).weight
            ),
            "contextual_embeddings": output.node_states,
            "bert.embeddings.output": output.hidden_states[0],
        }
        logits |= {f"bert.layer.{i}.output": states for i, states in enumerate(before)}
        nsp = model.objectives["nsp"].logits(output, model.encoder)
        pooled = hosts.pooled(model.encoder.host, output.node_states)
    for hook in hooks:
        hook.remove()
    real = batch.node_mask
    for name, value in logits.items():
        compared.close(name, value[real], expected[name][real], atol=ATOL)
    compared.close("nsp_logits", nsp, expected["nsp_logits"], atol=ATOL)
    compared.close("pooled_output", pooled, expected["pooled_output"], atol=ATOL)
    losses = output.losses
    compared.close("loss_mlm", losses["mlm"], expected["loss_mlm"][0], atol=ATOL)
    compared.close("loss_nsp", losses["nsp"], expected["loss_nsp"][0], atol=ATOL)
    compared.close("loss_total", sum(losses.values()), expected["loss_total"][0], atol=2 * ATOL)
    for number, spec in enumerate(case.specs):
        mine = torch.ones_like(batch.mention_labels, dtype=torch.bool)
        if batch.mention_graphs is not None:
            mine = batch.mention_graphs == number
        scores = output.linking_scores[mine].view(len(batch), -1, output.linking_scores.shape[2])
        kar = expected[f"kar.{spec.name}.linking_scores"]
        compared.close("linking_scores of the whole", scores, kar, atol=ATOL)


def test_every_step_of_a_kar(case: Case, compared: Any) -> None:
    for number, spec in enumerate(case.specs):
        expected = {
            name.removeprefix(f"kar.{spec.name}."): value
            for name, value in case.outputs.items()
            if name.startswith(f"kar.{spec.name}.")
        }
        actual = steps_of(case, number, expected["input"])
        n_spans = expected["linking_scores"].shape[1]
        theirs, ours = expected.pop("span_attention_probs"), actual.pop("span_attention_probs")
        real = case.inputs[f"candidates.{spec.name}.candidate_spans"][..., 0] >= 0
        kept = real[:, None, None]
        compared.close("span_attention_probs", ours[..., :n_spans] * kept, theirs * kept, atol=ATOL)
        padded = 1 - (ours[..., :n_spans] * kept).sum(-1)
        compared.close("share of padding", padded, (theirs * ~kept).sum(-1), atol=ATOL)
        del expected["input"]
        assert actual.keys() == expected.keys()
        for name, value in actual.items():
            mentions = name not in ("projected_bert", "span_attention_output", "projected_back")
            if mentions and name != "output":
                value = value[:, :n_spans]
            compared.close(f"kar {name}", value, expected[name], atol=ATOL)


def steps_of(case: Case, number: int, states: Tensor) -> dict[str, Tensor]:
    """All intermediate values of a KAR on `states`, every node seeing every real mention."""
    spec, encoder = case.specs[number], case.model.encoder
    linker = encoder.linkers[spec.name]
    recontextualisation = encoder.recontextualisations[spec.name]
    whole = torch.ones_like(case.batch.visibility.mask)
    mask = torch.ones_like(case.batch.node_mask)
    mentions = mentions_of(
        KnowledgeBatch(**{**vars(case.batch), "visibility": Visibility(whole), "node_mask": mask}),
        number,
    )
    watched: dict[str, tuple[nn.Module, bool]] = {
        "candidate_entity_embeddings_normed": (linker.entity_norm, False),
        "span_extractor_output": (linker.pooling, False),
        "span_after_layer_norm": (linker.mention_norm, False),
        "spans_with_entities": (recontextualisation.mention_norm, False),
        "span_attention_probs": (recontextualisation.attention.attention_dropout, True),
        "span_attention_output": (recontextualisation.attention, False),
        "projected_back": (recontextualisation.projection, False),
    }
    results: dict[str, Tensor] = {}

    def watch(name: str, module: nn.Module, is_input: bool) -> Any:
        def hook(_module: nn.Module, inputs: tuple[Tensor, ...], outputs: Tensor) -> None:
            results[name] = inputs[0] if is_input else outputs

        return module.register_forward_hook(hook)

    hooks = [watch(name, *pair) for name, pair in watched.items()]
    with torch.no_grad():
        linked = linker(
            states, mentions.spans, mentions.candidate_ids, mentions.priors, mentions.mentions_see
        )
        results["output"] = recontextualisation(states, linked, mentions.nodes_see)
    for hook in hooks:
        hook.remove()
    return results | {
        "projected_bert": linked.projected,
        "span_after_span_encoder": linked.mentions,
        "linking_scores": linked.scores,
        "normed_linking_scores": linked.weights,
        "weighted_entity_embeddings": linked.entities,
    }


def test_gradients(case: Case, compared: Any) -> None:
    expected = load(case.folder, "grads")
    case.model.zero_grad()
    sum(case.model(case.batch).losses.values()).backward()
    ours = {n: p.grad for n, p in case.model.named_parameters() if p.grad is not None}
    theirs = to_ours(expected, keys.rules(case.model.config), keys.TIED)
    assert theirs
    assert theirs.keys() <= ours.keys()  # they may be stored for a part of the parameters
    for name, value in theirs.items():
        compared.close(f"gradient of {name}", ours[name], value, atol=ATOL)


def test_key_table_round_trip(case: Case, compared: Any) -> None:
    back = keys.back_to_original(case.model, case.names)
    compared.equal("names", sorted(back), sorted(case.state))
    assert save({k: v.clone() for k, v in back.items()}) == save(case.state)


def test_what_trains(case: Case, compared: Any) -> None:
    """The released modes: everything but the tables, and the linkers alone."""
    modes = json.loads((case.folder / "losses_and_metrics.json").read_text())
    for mode, parts in (("None", ()), ("entity_linking", ("linker",))):
        config = config_of(case.settings, case.state)
        model = keys.from_original(case.state, config, case.names)
        if parts:
            model.encoder.train_only(parts)
        moving = {
            name
            for name, parameter in model.named_parameters()
            if parameter.requires_grad and (not parts or name.startswith("encoder."))
        }
        names = modes["trainable_parameters_by_mode"][mode]
        known = {name: torch.zeros(()) for name in names}
        copies = {second for _, second in keys.TIED}
        expected = to_ours({k: v for k, v in known.items() if k not in copies}, keys.rules(config))
        compared.equal(f"trained in mode {mode}", sorted(moving), sorted(expected))


def test_losses_of_both_kinds_on_the_same_scores(case: Case, compared: Any) -> None:
    expected = json.loads((case.folder / "losses_and_metrics.json").read_text())
    for spec in case.specs:
        spans, ids, _, labels, _ = case._mentions(case.inputs, spec.name, 0)
        scores = case.outputs[f"kar.{spec.name}.linking_scores"]
        is_labelled = (labels != IGNORE) & (spans[..., 1] > spans[..., 0])
        real = case.inputs[f"candidates.{spec.name}.candidate_entities"][is_labelled] > 0
        right = real & (ids[is_labelled] == labels[is_labelled][:, None])
        theirs = expected["entity_linking"][spec.name]
        margin = margin_loss(scores[is_labelled], real, right, margin=spec.margin)
        compared.close("margin loss", margin, theirs["margin"]["loss"], atol=ATOL)
        softmax = softmax_loss(scores[is_labelled], real, right, missing_gold="first")
        compared.close("softmax loss", softmax, theirs["softmax"]["loss"], atol=ATOL)
        sane = softmax_loss(scores[is_labelled], real, right)
        assert bool((~right.any(1)).any()) == (abs(float(sane - softmax)) > 1e-3)


def test_projection_init(folder: Path, compared: Any) -> None:
    """The original's start on a tall matrix, where it is well defined."""
    expected = load_file(folder / "projection_init.safetensors")
    width, inner = expected["kg_to_bert_projection.weight"].shape
    forth, back = nn.Linear(width, inner), nn.Linear(inner, width)
    forth.load_state_dict({n: expected[f"bert_to_kg_projector.{n}"] for n in ("weight", "bias")})
    start_as_inverse(back, forth, original=True)
    for name, value in back.state_dict().items():
        compared.close(
            f"projection {name}", value, expected[f"kg_to_bert_projection.{name}"], atol=ATOL
        )
    start_as_inverse(back, forth)
    states = torch.randn(5, width)
    torch.testing.assert_close(back(forth(states)), states, atol=1e-4, rtol=1e-4)


def test_the_tables_of_entities_are_frozen(case: Case) -> None:
    assert isinstance(case.model, KnowledgeForPreTraining)
    for spec in case.specs:
        linker = case.model.encoder.linkers[spec.name]
        assert not linker.entities.vectors.weight.requires_grad
