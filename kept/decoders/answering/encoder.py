"""Sentence vectors without torch: MiniLM prepared once for CTranslate2, in eight-bit integers.

Loading torch and transformers takes seconds and 400 MB; a question is a few words. The weights are
converted once, in a process of its own, into the cache of the user, and are read from there.
"""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entity_linking.parts import SentenceEncoder
from kept.decoders.answering.conversion import QUANTIZATION
from kept.errors import CheckpointError, MissingExtraError
from kept.packaged import MINILM_PACKAGE, MINILM_SHA256, packaged_file
from kept.prepared import prepared_folder
from kg_loaders.errors import WriteError

_log = logging.getLogger(__name__)
TEXTS_PER_PASS = 64
MOST_PIECES = 256


class FastSentenceEncoder:
    """MiniLM's sentence vectors, the mean of the last states at length 1; an
    `entity_linking.parts.SentenceEncoder`.

    Raises `MissingExtraError` where ctranslate2 or the weights are not installed.
    """

    def __init__(self, n_threads: int = 1) -> None:
        if not is_available():
            raise MissingExtraError("quick answers need ctranslate2: pip install 'kept[ask]'")
        import ctranslate2
        from tokenizers import Tokenizer

        folder = prepared_minilm()
        # CTranslate2 sets the number of OpenMP threads of the thread that opens a model, and torch
        # takes it over: a thread that ends here keeps it away from whatever else this program does.
        with ThreadPoolExecutor(1) as pool:
            model = pool.submit(ctranslate2.Encoder, str(folder), intra_threads=n_threads)
            self._model: Any = model.result()
        self._version = str(ctranslate2.__version__)
        self._tokenizer = Tokenizer.from_file(str(_minilm_folder() / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MOST_PIECES)

    def __repr__(self) -> str:
        return f"FastSentenceEncoder({self.name})"

    @property
    def name(self) -> str:
        """What made the vectors; they do not compare with those of another name."""
        return f"minilm/mean/{QUANTIZATION}/{MINILM_SHA256[:16]}"

    @property
    def width(self) -> int:
        return 384

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Rows of length 1, `[text width]`, in the order of `texts`; longer ones are cut, as the
        log says."""
        vectors = np.empty((len(texts), self.width), np.float32)
        encodings = self._tokenizer.encode_batch(list(texts))
        pieces = [encoding.tokens for encoding in encodings]
        if n_cut := sum(bool(encoding.overflowing) for encoding in encodings):
            _log.warning(f"{n_cut} of {len(texts)} texts cut at {MOST_PIECES} word pieces")
        order = sorted(range(len(texts)), key=lambda i: len(pieces[i]))
        for start in range(0, len(texts), TEXTS_PER_PASS):
            rows = order[start : start + TEXTS_PER_PASS]
            output = self._model.forward_batch([pieces[i] for i in rows])
            states = np.asarray(output.last_hidden_state)
            for number, i in enumerate(rows):
                mean = states[number, : len(pieces[i])].mean(0)
                vectors[i] = mean / np.linalg.norm(mean)
        return vectors

    def encode_once(self, name: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return what `encode` does, and keep it under `name` in the user's cache.

        Other texts, weights or another version of CTranslate2 are kept apart. Where the cache
        cannot be written the vectors are computed each time.
        """
        key = sha256("\n".join([self.name, self._version, *texts]).encode()).hexdigest()

        def write(folder: Path) -> None:
            np.save(folder / "vectors.npy", self.encode(texts))

        try:
            folder = prepared_folder(f"{name}-{key[:16]}", write)
        except WriteError:
            return self.encode(texts)
        vectors: NDArray[np.float32] = np.load(folder / "vectors.npy", allow_pickle=False)
        return vectors


def is_available() -> bool:
    """Whether ctranslate2 is installed."""
    return find_spec("ctranslate2") is not None


def answer_encoder(n_threads: int = 1) -> SentenceEncoder:
    """Return the quick encoder where it is installed, else MiniLM by torch: the same vectors.

    So also where the cache of the quick one cannot be written, which a warning says.

    One thread is the default: a question is a few words, and on a busy machine a second one waits
    actively (65 seconds of the processor were measured for an answer that takes two).
    """
    if is_available():
        try:
            return FastSentenceEncoder(n_threads)
        except WriteError as error:
            _log.warning(f"questions are answered slowly, by torch: {error}")
    from kept.linking.sentences import HostSentenceEncoder

    return HostSentenceEncoder("minilm")


def prepared_minilm() -> Path:
    """Return the folder of MiniLM prepared for CTranslate2, made now where it is not there yet.

    Raises `CheckpointError` where preparing fails, and `WriteError` for a cache that cannot be
    written.
    """
    from ctranslate2 import __version__ as version

    name = f"minilm-{MINILM_SHA256[:12]}-{QUANTIZATION}-{version}"
    return prepared_folder(name, _convert)


def _convert(folder: Path) -> None:
    """Write MiniLM for CTranslate2 into `folder`, in a process of its own."""
    module = "kept.decoders.answering.conversion"
    command = [sys.executable, "-m", module, str(_minilm_folder()), str(folder)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise CheckpointError(
            f"MiniLM could not be prepared for CTranslate2: {run.stderr.strip()[-400:]}"
        )


def _minilm_folder() -> Path:
    install = "pip install 'kept[minilm]'"
    return packaged_file(
        MINILM_PACKAGE, "model.safetensors", MINILM_SHA256, "minilm", install
    ).parent
