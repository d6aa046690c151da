"""What the parts share: a clock for a GPU's work, random hosts, the atlas on disk."""

from __future__ import annotations

import faulthandler
import os
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

import kept.apps.cli.training.finetune_run
import kept.apps.cli.training.pretrain_run
from entity_linking.annotations import write_jsonl
from kept.apps.cli import main
from kept.tasks.datasets.atlas import linked_texts
from kg_loaders import atlas

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SHAPES = {
    "tiny": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2},
    "minilm": {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12},
    "bert-base": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12},
}


@dataclass(frozen=True)
class Trial:
    """How much is measured, where, for how long, and where lines go."""

    small: bool
    seconds: float
    line: Callable[..., None]

    @property
    def device(self) -> str:
        """The GPU, or the processor at a small size."""
        return "cpu" if self.small else "cuda"

    @property
    def repeats(self) -> int:
        """How often a run is timed."""
        return 2 if self.small else 10

    @property
    def precisions(self) -> dict[str, torch.dtype | None]:
        """Name to the type of autocast; None: none."""
        if self.small:
            return {"fp32": None}
        return {"fp32": None, "tf32": None, "bf16": torch.bfloat16}

    def median_ms(self, run: Callable[[], object], repeats: int | None = None) -> float:
        """Wall milliseconds of a run, the GPU's work included; three rounds warm up."""
        times, warm = [], 1 if self.small or repeats is not None else 3
        for round_ in range((repeats or self.repeats) + warm):
            self.wait()
            start = time.perf_counter()
            run()
            self.wait()
            if round_ >= warm:
                times.append(1e3 * (time.perf_counter() - start))
        return statistics.median(times)

    def wait(self) -> None:
        """Until the GPU has done what it was given."""
        if not self.small:
            torch.cuda.synchronize()


@contextmanager
def precision(name: str) -> Iterator[None]:
    """Products of float32 in TF32 where `name` says so, in float32 otherwise."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if name == "tf32" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def matrix_rate(trial: Trial, dtype: torch.dtype, n: int) -> float:
    """Operations a second of an n x n product of random numbers."""
    one, other = torch.randn(2, n, n, device=trial.device, dtype=dtype)
    return 2 * n**3 / (trial.median_ms(lambda: one @ other) / 1e3)


def tokenizer() -> PreTrainedTokenizerFast:
    """Word pieces that are learned from the atlas's own sentences."""
    inner = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer()
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=8000, special_tokens=SPECIAL, show_progress=False
    )
    inner.train_from_iterator((s.text for s in atlas.sentences()), trainer)
    ends = [(name, inner.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, model_max_length=512, **dict(zip(names, SPECIAL, strict=True))
    )


def write_host(folder: Path, shape: str) -> Path:
    """A random host of a shape, with its tokenizer, in a folder."""
    words = tokenizer()
    sizes = SHAPES[shape]
    torch.manual_seed(0)
    host = BertModel(
        BertConfig(
            vocab_size=len(words), intermediate_size=4 * sizes["hidden_size"],
            max_position_embeddings=512, **sizes,
        )
    )  # fmt: skip
    host.save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


@contextmanager
def world(shape: str) -> Iterator[Path]:
    """A folder with a `host`, the atlas as `kg` and its linked texts as `texts.jsonl`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def write() -> int:
            write_host(folder / "host", shape)
            atlas.graph().save(folder / "kg")
            write_jsonl(linked_texts(atlas.sentences()), folder / "texts.jsonl")
            return 0

        forked("writing the host and the graph", write)
        yield folder


def kept(*flags: object) -> float:
    """Run a command of kept in a process of its own; return its seconds."""
    return forked(f"kept {flags[0]}", lambda: _command([*map(str, flags)]))


def printed_by(group: int) -> Path:
    """What a command of this group of processes prints, for whoever ends the group."""
    return Path(tempfile.gettempdir()) / f"kept-printed-{os.getuid()}-{group}.txt"


def forked(name: str, run: Callable[[], int]) -> float:
    """Return the seconds of what runs in a forked process; RuntimeError where it returns not 0.

    Nothing may have started the GPU or threads of torch here before.
    """
    start = time.monotonic()
    with printed_by(os.getpgrp()).open("w+b") as printed:
        child = os.fork()
        if child == 0:
            os.dup2(printed.fileno(), 1)
            os.dup2(printed.fileno(), 2)
            code = 1
            try:
                code = run()
            except BaseException:  # noqa: BLE001 it is printed, and the process ends
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        printed.seek(0)
        text = printed.read().decode("utf-8", "replace")
    if code:
        raise RuntimeError(f"{name} ended with {code}: {text[-1500:]}")
    return time.monotonic() - start


def _command(flags: list[str]) -> int:
    faulthandler.dump_traceback_later(40, repeat=True)  # where it is, should it take long
    sys.argv = ["kept", *flags]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def host_numbers(host: Any) -> int:
    """The numbers of a host's layers: each takes part in six operations a node of a step."""
    whole = sum(p.numel() for p in host.parameters())
    return whole - sum(p.numel() for p in host.embeddings.parameters())
