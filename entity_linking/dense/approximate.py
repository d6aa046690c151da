"""faiss behind `DenseIndex`: which index by size, how it is filled, read and searched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import faiss as untyped_faiss
import numpy as np
from numpy.typing import NDArray

from entity_linking.dense.building import ROWS_PER_STEP
from entity_linking.dense.folder import AGAIN, Kind
from entity_linking.errors import LinkIndexError

faiss: Any = untyped_faiss  # its stubs lack or contradict half of what is used here

FLAT_MOST, HNSW_MOST = 50_000, 1_000_000
HNSW_LINKS, HNSW_BUILD, HNSW_SEARCH = 32, 80, 128
LISTS_PER_ROOT, LISTS_SEARCHED = 4, 32
PART_WIDTH, PART_BITS, PQ_FETCH = 8, 8, 4
"""Product quantisation: numbers of a vector behind one code, its bits, and how many times as many
rows are fetched, for what is fetched is compared by the vectors themselves."""
FEWEST_ROWS = 2
POINTS_PER_LIST, FEWEST_PER_LIST = 64, 39  # faiss complains below the latter


def kind_for(n_entities: int) -> Kind:
    """The kind that `auto` means."""
    if n_entities <= FLAT_MOST:
        return "flat"
    return "hnsw" if n_entities <= HNSW_MOST else "ivf"


def new_searcher(kind: Kind, vectors: NDArray[Any]) -> Any:
    """A filled faiss index by inner product; those that are saved hold half precision."""
    width = vectors.shape[1]
    half, product = faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT
    if kind == "flat":
        searcher = faiss.IndexFlatIP(width)
    elif kind == "hnsw":
        searcher = faiss.IndexHNSWSQ(width, half, HNSW_LINKS, product)
        searcher.hnsw.efConstruction = HNSW_BUILD
    else:
        most = max(1, len(vectors) // FEWEST_PER_LIST)
        n_lists = min(most, max(1, int(LISTS_PER_ROOT * len(vectors) ** 0.5)))
        coarse = faiss.IndexFlatIP(width)
        if kind == "pq":
            searcher = _quantised(coarse, width, n_lists, len(vectors))
        else:
            searcher = faiss.IndexIVFScalarQuantizer(coarse, width, n_lists, half, product)
        searcher.cp.max_points_per_centroid = POINTS_PER_LIST
    if not searcher.is_trained:
        fewest = FEWEST_PER_LIST << PART_BITS if kind == "pq" else 1
        n_wanted = max(POINTS_PER_LIST * getattr(searcher, "nlist", 1), fewest)
        searcher.train(_training_rows(vectors, n_wanted))
    feed(searcher, vectors)
    return searcher


def _quantised(coarse: Any, width: int, n_lists: int, n_vectors: int) -> Any:
    """Inverted lists of codes, of fewer bits where there are too few vectors to learn from.

    Jégou, Douze and Schmid 2011, "Product Quantization for Nearest Neighbor Search", IEEE TPAMI 33.
    """
    n_parts = next(n for n in range(max(width // PART_WIDTH, 1), 0, -1) if width % n == 0)
    bits = min(PART_BITS, max(1, int(np.log2(max(n_vectors / FEWEST_PER_LIST, 2)))))
    product = faiss.METRIC_INNER_PRODUCT
    return faiss.IndexIVFPQ(coarse, width, n_lists, n_parts, bits, product)


def _training_rows(vectors: NDArray[Any], n_wanted: int) -> NDArray[np.float32]:
    """So many evenly spread rows, or all; two at least, which are all 0 if there are fewer.

    Inverted lists over nothing are clustered round these, so that `add` can fill them; codes of one
    bit need two.
    """
    n_wanted = min(len(vectors), n_wanted)
    if n_wanted < FEWEST_ROWS:
        return np.zeros((FEWEST_ROWS, vectors.shape[1]), np.float32)
    rows = np.arange(n_wanted) * len(vectors) // n_wanted
    return np.ascontiguousarray(vectors[rows], np.float32)


def feed(searcher: Any, vectors: NDArray[Any]) -> None:
    """Add rows; a searcher that is mapped from a file must not be fed (faiss aborts)."""
    for start in range(0, len(vectors), ROWS_PER_STEP):
        searcher.add(np.ascontiguousarray(vectors[start : start + ROWS_PER_STEP], np.float32))


def nearest(searcher: Any, kind: Kind, queries: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """Rows `[query k]`, -1 where fewer were found; of codes `PQ_FETCH` times as many."""
    options = None
    if kind == "hnsw":
        options = faiss.SearchParametersHNSW(efSearch=max(HNSW_SEARCH, 2 * k))
    elif kind in ("ivf", "pq"):
        options = faiss.SearchParametersIVF(nprobe=LISTS_SEARCHED)
    n = min(k * PQ_FETCH, searcher.ntotal) if kind == "pq" else k
    rows: NDArray[np.int64] = searcher.search(queries, n, params=options)[1]
    return rows


def read_searcher(path: Path, shape: tuple[int, int], *, mapped: bool) -> Any:
    """The index in a file, for `shape` `(rows, width)`; mapped where faiss can."""
    flag = getattr(faiss, "IO_FLAG_MMAP_IFC", faiss.IO_FLAG_MMAP) if mapped else 0
    try:
        searcher = faiss.read_index(str(path), flag)
    except RuntimeError as error:
        reason = str(error).splitlines()[0].split("Error: ")[-1]
        raise LinkIndexError(f"{path} cannot be read ({reason}); {AGAIN}") from error
    if (searcher.ntotal, searcher.d) != shape:
        raise LinkIndexError(
            f"{path} holds {searcher.ntotal} vectors of {searcher.d}, not {shape[0]} of "
            f"{shape[1]}; {AGAIN}"
        )
    return searcher


def searcher_bytes(searcher: Any) -> int:
    """Its size when written, which is its size in memory; 0 for None."""
    return 0 if searcher is None else int(faiss.serialize_index(searcher).nbytes)


def copied(searcher: Any) -> Any:
    """Another index with the same content."""
    return faiss.clone_index(searcher)


def write_searcher(searcher: Any, path: Path) -> None:
    """Write the file that `read_searcher` reads."""
    faiss.write_index(searcher, str(path))
