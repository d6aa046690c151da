"""Readers of every row but KBLaM, trained or taken from where their weights are stored; None where
the training was stopped."""

from __future__ import annotations

from functools import partial

import torch

from kept.decoders.adapters import DecoderAdapter, load_lora_state, lora_state
from kept.decoders.soft_prompts import GraphPrompter, LabelSentences, SoftPromptOptions
from kept.errors import MissingExtraError
from kept.lab.questions.readers import (
    AdapterReader,
    AloneReader,
    FactsAs,
    Reader,
    SoftPromptReader,
    TreeReader,
)
from kept.lab.questions.training import (
    AdapterPlan,
    NoTraining,
    ReadingPlan,
    RememberingPlan,
    SoftPromptPlan,
    prompting_by_answers,
    prompting_by_words,
    reading,
    remembering,
    remembering_with_adapter,
    with_lora,
)
from kept.lab.questions.training_context import TrainingContext
from kept.randomness import torch_draws

ALIGNMENT, TRAINING = "alignment", "training"
"""Names of trainings, and of their folders."""


def _as_it_is(facts_as: FactsAs, shop: TrainingContext, options: NoTraining) -> Reader:
    return TreeReader(shop.host, shop.prompting, facts_as, options.readers)


def _with_lora(facts_as: FactsAs, shop: TrainingContext, options: ReadingPlan) -> Reader | None:
    host, state = with_lora(shop.host, shop.seed), shop.stored()
    if state is None:
        training = reading(host, shop.prompting, facts_as, shop.train_items, options, shop.seed)
        if not shop.train(TRAINING, training):
            return None
        shop.store(lora_state(host))
    else:
        load_lora_state(host, state)
    return TreeReader(host, shop.prompting, facts_as, options.readers)


words, branches, nodes = (partial(_as_it_is, kind) for kind in ("words", "branches", "nodes"))
words_lora, branches_lora, nodes_lora = (
    partial(_with_lora, kind) for kind in ("words", "branches", "nodes")
)


def soft_prompt(shop: TrainingContext, options: SoftPromptPlan) -> Reader | None:
    """A graph network that makes prompts; `MissingExtraError` without torch-geometric."""
    require_torch_geometric()
    vectors = LabelSentences.of(shop.train_items.graph, shop.encoder)
    sizes = SoftPromptOptions(
        vector_width=vectors.entities.shape[1], n_soft=options.n_soft, width=options.width
    )
    with torch_draws(shop.seed, "initial weights"):
        prompter = GraphPrompter(shop.host, sizes).eval()
    state = shop.stored()
    if state is None:
        learning = SoftPromptReader(shop.host, shop.prompting, prompter, vectors)
        parts = learning, shop.train_items, options, shop.seed
        if options.n_aligned and not shop.train(ALIGNMENT, prompting_by_words(*parts)):
            return None
        if not shop.train(TRAINING, prompting_by_answers(*parts)):
            return None
        shop.store(prompter.own_state())
    else:
        prompter.load_own_state(state)
    vectors_of_questions = LabelSentences.of(shop.questions.graph, shop.encoder, like=vectors)
    return SoftPromptReader(shop.host, shop.prompting, prompter, vectors_of_questions)


def require_torch_geometric() -> None:
    """Raise `MissingExtraError` where torch-geometric has no G-Retriever."""
    try:
        import torch_geometric.llm.models  # noqa: F401  only whether it is there
    except ImportError as error:
        raise MissingExtraError(
            "the row soft-prompt needs torch-geometric with its GRetriever: pip install "
            "'kept[pyg]', or leave the row out with --methods"
        ) from error


def lora(shop: TrainingContext, options: RememberingPlan) -> Reader | None:
    """A host whose LoRA has learnt the facts that are asked for."""
    host, state = with_lora(shop.host, shop.seed), shop.stored()
    if state is None:
        training = remembering(host, shop.prompting, shop.train_items, options, shop.seed)
        if not shop.train(TRAINING, training):
            return None
        shop.store(lora_state(host))
    else:
        load_lora_state(host, state)
    return AloneReader(host, shop.prompting)


def adapter(shop: TrainingContext, options: AdapterPlan) -> Reader | None:
    """A host with an adapter beside it that has learnt the facts that are asked for."""
    n = int(shop.host.config.num_hidden_layers)
    sizes = {
        "layers": (n // 3, 2 * n // 3, n), "width": options.width, "n_heads": options.n_heads,
        "n_layers": options.n_layers, "dropout": 0.0,
    }  # fmt: skip
    with torch_draws(shop.seed, "initial weights"):
        adapter_network = DecoderAdapter(shop.host, sizes).eval()
    state: dict[str, torch.Tensor] | None = shop.stored()
    if state is None:
        training = remembering_with_adapter(
            shop.host, adapter_network, shop.prompting, shop.train_items, options, shop.seed
        )
        if not shop.train(TRAINING, training):
            return None
        shop.store(adapter_network.state_dict())
    else:
        adapter_network.load_state_dict(state)
    return AdapterReader(shop.host, shop.prompting, adapter_network)
