"""Folders of models whose settings say odd things: one value of a JSON file changed, sealed anew.

Spoilt bytes are nearly always found by a seal or by a parser. Here the files are well-formed, and
whoever wrote them means ill: what opens them must refuse the value, or do without it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.openers import NAMES, make_model, make_scorer_folder, seeds_of, small_graph
from tests.fuzz.targets import Target

MANY_DIGITS = "many digits"
ODD: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 2, 3, 7, 10**6, 10**12, 2**63, 10**40, MANY_DIGITS, 0.5, 1.5, -0.0,
    1e-320, 1e308, float("nan"), float("inf"), "", "text", "org/repo", "../x", "a\0b", "\ud800",
    "x" * 5000, [], {}, [1], ["a"], {"a": 1}, [[[]]], "cuda", "float16", "none", "bert", "gpt2",
)  # fmt: skip
TEMPLATES = (
    "{{ messages[0].content }}", "{% for", "{{ raise_exception('no') }}", "{{ 1 / 0 }}", "", "{{",
    "{{ messages[0].__class__.__mro__ }}", "{{ nothing.at.all }}", "{{ messages[9].content }}",
    "{% for i in range(10**9) %}x{% endfor %}", "{{ 'a' * 10**12 }}", "{{ messages | tojson }}",
    "{% include 'x' %}", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "\ud800", "{{ 9**9 }}",
)  # fmt: skip


def _places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value inside a JSON value."""
    paths: list[tuple[Any, ...]] = []
    rows = enumerate(value) if isinstance(value, list) else getattr(value, "items", tuple)()
    for key, inner in rows:
        paths += [(*at, key), *_places(inner, (*at, key))]
    return paths


def changed(text: str, random: Random, odd: tuple[Any, ...] = ODD) -> str:
    """A JSON text with one to three of its values replaced, removed or added."""
    values = json.loads(text)
    for _ in range(random.choice((1, 1, 2, 3))):
        places = _places(values)
        if not isinstance(values, (dict, list)) or not places:
            break
        *above, last = random.choice(places)
        inner = values
        for key in above:
            inner = inner[key]
        if random.random() < 0.15:
            del inner[last]
        else:
            inner[last] = random.choice(odd)
    return json.dumps(values).replace(json.dumps(MANY_DIGITS), "9" * 5000)


def spoil(folder: Path, names: tuple[str, ...], random: Random) -> None:
    """Change one of the files of these names that are there and parse; others stay."""
    files = [folder / name for name in names if (folder / name).is_file()]
    if not files:
        return
    path = random.choice(files)
    try:
        path.write_text(changed(path.read_text(encoding="utf-8"), random), encoding="utf-8",
                        errors="surrogatepass")  # fmt: skip
    except (ValueError, RecursionError):
        return


MODEL_FILES = (
    "config.json", "config.json", "tokenizer_config.json", "finetune.json", "encoder.json",
    "tokenizer.json", "generation_config.json",
)  # fmt: skip


def _resealed(folder: Path) -> None:
    from kept.model_files import MODEL, seal_model

    (folder / MODEL.manifest).unlink(missing_ok=True)
    seal_model(folder)


def _make_host(folder: Path) -> None:
    import torch
    from transformers import AutoConfig, AutoModel

    make_model(folder)  # for its tokenizer
    for name in ("config.json", "model.safetensors", "checksums.json"):
        (folder / name).unlink()
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        "bert", vocab_size=len(NAMES) + 5, hidden_size=8, num_hidden_layers=1,
        num_attention_heads=2, intermediate_size=8, max_position_embeddings=16,
    )  # fmt: skip
    AutoModel.from_config(config).save_pretrained(folder)


def _open_host(folder: Path, random: Random) -> None:
    from kept.auto import AutoEncoder

    spoil(folder, MODEL_FILES, random)
    AutoEncoder.from_pretrained(folder).encode("Paris lies in France")


def _open_model(folder: Path, random: Random) -> None:
    from kept.auto import AutoEncoder

    spoil(folder, MODEL_FILES, random)
    _resealed(folder)
    AutoEncoder.from_pretrained(folder).encode("Paris lies in France", small_graph())


def _make_run(folder: Path) -> None:
    from kept.encoders import encoder_class, read_config
    from kept.heads.model import KnowledgeForTask
    from kept.model_files import seal_model

    make_model(folder)
    encoder = encoder_class(read_config(folder)).from_pretrained(folder)
    KnowledgeForTask.of(encoder, "pooled", ["good", "bad"]).save_pretrained(folder)
    run = {"task": "classification", "markers": None, "threshold": 0.0, "graph": {}, "view": {},
           "method": "kbert", "host": "host", "knowledge": "true"}  # fmt: skip
    (folder / "finetune.json").write_text(json.dumps(run))
    seal_model(folder)


def _open_run(folder: Path, random: Random) -> None:
    from kept.training.finetuning.predictor import Predictor

    spoil(folder, ("finetune.json", *MODEL_FILES), random)
    _resealed(folder)
    Predictor.from_pretrained(folder).predict(["Paris lies in France"], small_graph())


def _make_adapter(folder: Path) -> None:
    from transformers import AutoConfig

    from kept.adapters.adapter import Adapter, AdapterOptions
    from kept.adapters.files import write_adapter

    options = AdapterOptions(layers=(0, 1), width=4, n_layers=1, n_heads=2, intermediate=4)
    host = AutoConfig.for_model("bert", hidden_size=8, num_hidden_layers=1, num_attention_heads=2)
    adapter = Adapter(options, host_width=host.hidden_size, attention="sdpa")
    write_adapter(folder, "facts", adapter, host)


def _sealed_values(path: Path, random: Random) -> dict[str, Any] | None:
    """What a manifest says of its folder, with odd values, without its list of files."""
    try:
        values = json.loads(path.read_bytes())
        about = {k: v for k, v in values.items() if k not in ("files", "seal")}
        odd: dict[str, Any] = json.loads(changed(json.dumps(about), random))
        json.dumps(odd, ensure_ascii=False).encode()  # half a character cannot be sealed
    except (OSError, ValueError, RecursionError, AttributeError):
        return None
    return odd if isinstance(odd, dict) else None


def _open_adapter(folder: Path, random: Random) -> None:
    from transformers import AutoConfig

    from kept.adapters.adapter import Adapter
    from kept.adapters.files import ADAPTER, HEADER_FILE, WEIGHTS_FILE, read_adapter
    from kept.encoders.loading import load_strictly
    from kg_loaders.disk.seals import seal

    values = _sealed_values(folder / HEADER_FILE, random)
    if values is not None and (folder / WEIGHTS_FILE).is_file():
        seal(folder, ADAPTER, values, [WEIGHTS_FILE])
    host = AutoConfig.for_model("bert", hidden_size=8, num_hidden_layers=1, num_attention_heads=2)
    saved = read_adapter(folder, host)
    adapter = Adapter(saved.options, host_width=host.hidden_size, attention="sdpa")
    load_strictly(adapter, saved.weights)


def _open_scorer(folder: Path, random: Random) -> None:
    from kept.kge.trained import DESCRIPTION, SCORER, WEIGHTS, load_scorer
    from kg_loaders.disk.seals import seal

    values = _sealed_values(folder / DESCRIPTION, random)
    if values is not None and (folder / WEIGHTS).is_file():
        seal(folder, SCORER, values, [WEIGHTS])
    load_scorer(folder, small_graph())


def _make_completer(folder: Path) -> None:
    import torch

    from kept.kgc.completers.folders import save_completer
    from kept.kgc.completers.ultra import UltraCompleter
    from kept.kge.ultra.networks import make_ultra

    torch.manual_seed(0)
    save_completer(folder, UltraCompleter(make_ultra(width=4, n_layers=1), 4), None, {"seed": 0})


def _open_completer(folder: Path, random: Random) -> None:
    from kept.kgc.completers.folders import open_completer
    from kept.kge.trained import DESCRIPTION, SCORER, WEIGHTS
    from kg_loaders.disk.seals import seal

    values = _sealed_values(folder / DESCRIPTION, random)
    if values is not None and (folder / WEIGHTS).is_file():
        seal(folder, SCORER, values, [WEIGHTS])
    open_completer(folder)


def _make_decoder(folder: Path) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    make_model(folder)  # for its tokenizer
    for name in ("config.json", "model.safetensors", "checksums.json"):
        (folder / name).unlink()
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        "llama", vocab_size=len(NAMES) + 5, hidden_size=8, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, head_dim=4, intermediate_size=8,
        max_position_embeddings=16,
    )  # fmt: skip
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    (folder / "chat_template.jinja").write_text(TEMPLATES[0])


def _open_decoder(folder: Path, random: Random) -> None:
    from kept.decoders.asking import prompt
    from kept.decoders.hosts import load_decoder
    from kept.hosts import load_tokenizer
    from kept.lab.probing.opening import is_decoder, is_ours

    if random.random() < 0.5:
        text = random.choice(TEMPLATES)
        (folder / "chat_template.jinja").write_text(text, "utf-8", errors="surrogatepass")
    else:
        spoil(folder, MODEL_FILES, random)
    assert not is_ours(folder)
    is_decoder(folder)
    tokenizer = load_tokenizer(folder)
    assert prompt(tokenizer, "Where is Paris?", (), "", "").text
    load_decoder(folder)


def _make_peft(folder: Path) -> None:
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModel

    _make_host(folder / "base")
    options = LoraConfig(r=2, target_modules=["query"])
    get_peft_model(AutoModel.from_pretrained(folder / "base"), options).save_pretrained(folder)


def _open_peft(folder: Path, random: Random) -> None:
    from kept.hosts import load_host

    path = folder / "adapter_config.json"
    if path.is_file():
        try:
            values = json.loads(path.read_bytes())
            values["base_model_name_or_path"] = str(folder / "base")
            path.write_text(json.dumps(values))
        except (ValueError, TypeError, RecursionError):
            pass
    spoil(folder, ("adapter_config.json",), random)
    load_host(folder)


def _target(make: Callable[[Path], object], run: Callable[[Path, Random], None]) -> Target:
    return Target(seeds_of(make), run, spoils=False)


SETTINGS: dict[str, Target] = {
    "settings.host": _target(_make_host, _open_host),
    "settings.model": _target(make_model, _open_model),
    "settings.run": _target(_make_run, _open_run),
    "settings.adapter": _target(_make_adapter, _open_adapter),
    "settings.scorer": _target(make_scorer_folder, _open_scorer),
    "settings.completer": _target(_make_completer, _open_completer),
    "settings.decoder": _target(_make_decoder, _open_decoder),
    "settings.peft": _target(_make_peft, _open_peft),
}
