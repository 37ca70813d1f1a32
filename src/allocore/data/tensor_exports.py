"""A count tensor for files, for other libraries and for plain NumPy; `files.py` and `export.py` do the work."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from allocore.data.coordinates import Int64s
from allocore.data.tensor_parts import TensorParts
from allocore.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    import scipy.sparse
    import sparse

MAX_DENSE_CELLS = 10**8


class TensorExports(TensorParts):
    """The ways in which a tensor leaves this package."""

    __slots__ = ()

    def save(self, path: str | os.PathLike[str], *, shards: int | None = None) -> None:
        """Write the tensor to a file, or to a folder of shards, all of it or nothing; `load_tensor` reads it back.

        Parameters
        ----------
        path : str or path-like
            The suffix names the format. `.npz` and `.parquet` keep everything. `.tns` and `.tns.gz` keep the counts
            alone, and tensors with missing cells are refused. `.zarr` is a folder that keeps everything in shards
            (`ShardedTensor`), for fits on a cluster.
        shards : int, optional
            Only for `.zarr`: into how many shards the cells are cut, of at least 1,024 cells each; by default 16. A
            few times the number of workers leaves room for workers of different speed.

        Raises
        ------
        InputError
            If the suffix is not one of these, or if the file cannot be written.

        Examples
        --------
        >>> import allocore as ac, pathlib, tempfile
        >>> Y = ac.load_flights()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Y.save(pathlib.Path(folder) / "flights.parquet")
        ...     ac.load_tensor(pathlib.Path(folder) / "flights.parquet") == Y
        True
        """
        from allocore.data.files import save

        save(self, path, shards)

    def to_scipy(self) -> scipy.sparse.coo_array:
        """Return the counts as a SciPy array with the same number of dimensions. Labels are lost.

        Returns
        -------
        scipy.sparse.coo_array
            The non-zeros.

        Raises
        ------
        InputError
            If the tensor has missing cells, which would become zeros.

        Examples
        --------
        >>> import allocore as ac
        >>> ac.CountTensor([[0, 1], [2, 0]], [5, 1]).to_scipy().toarray()
        array([[0, 0, 5],
               [1, 0, 0]])
        """
        from allocore.data.export import to_scipy

        return to_scipy(self)

    def to_sparse(self) -> sparse.COO:
        """Return the counts as an array of pydata sparse, which must be installed. Labels are lost.

        Returns
        -------
        sparse.COO
            The non-zeros.

        Raises
        ------
        InputError
            If the tensor has missing cells, which would become zeros, or if `sparse` is not installed.

        Examples
        --------
        >>> import allocore as ac
        >>> ac.CountTensor([[0, 1], [2, 0]], [5, 1]).to_sparse().todense()
        array([[0, 0, 5],
               [1, 0, 0]])
        """
        from allocore.data.export import to_sparse

        return to_sparse(self)

    def to_frame(self) -> pd.DataFrame:
        """Return the non-zeros as a pandas data frame, which `as_tensor` turns back into the same tensor.

        Returns
        -------
        pandas.DataFrame
            One row per non-zero: a column of labels for each mode, and a column of counts.

        Examples
        --------
        >>> import allocore as ac
        >>> Y = ac.CountTensor([[0, 1], [2, 0]], [5, 1], mode_names=["who", "when"], labels=[["Ada", "Max"], None])
        >>> Y.to_frame()
           who  when  count
        0  Ada     2      5
        1  Max     0      1
        """
        from allocore.data.export import to_frame

        return to_frame(self)

    def to_dense(self) -> Int64s:
        """Return the counts as a dense array, with zeros in missing cells.

        Returns
        -------
        ndarray of int64
            An array of the tensor's shape.

        Raises
        ------
        InputError
            If the tensor has more than 10^8 cells.

        Examples
        --------
        >>> import allocore as ac
        >>> ac.CountTensor([[0, 1], [2, 0]], [5, 1]).to_dense()
        array([[0, 0, 5],
               [1, 0, 0]])
        """
        if self.volume > MAX_DENSE_CELLS:
            raise InputError(f"to_dense allows at most {MAX_DENSE_CELLS:,} cells; this tensor has {self.volume:,}")
        dense = np.zeros(self.shape, dtype=np.int64)
        dense[tuple(self.coords)] = self.counts
        return dense
