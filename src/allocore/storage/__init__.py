"""A run on disk or in memory: the format of its folder, the writer, the reader, and arrays that stay on disk.

It may import `gibbs` and everything before it. `progress`, `run` and everything after them may import it.

A run is a Zarr folder (format 2), which xarray can open as a DataTree at any time, also while the run continues:

    run.zarr/
      posterior/ sample_stats/ sweep_stats/ observed_data/ constant_data/ held_out/      variables (zarr_format.py)
      .zattrs             settings, seed and versions, with a checksum (record.py)
      .zmetadata          Zarr's consolidated metadata; only this file says how many draws there are
      checkpoints/0/      the newest states of chain 0 (state_files.py)
      slices/             while chains run on an executor: draws from workers (state_files.py)
        token             shows workers that this is the folder of the run
        0-21-40.npz       the draws of sweeps 21 to 40 of chain 0, and the state after sweep 40
      lock                locked by the process that writes

A save first writes chunks, then the checkpoint, then the new sizes in `.zmetadata` (run_writer.py). So readers always
see complete draws of all variables, and no checkpoint is ahead of the draws on disk. Every file is replaced as a whole.
The reader (run_reader.py) checks everything: a run may be damaged, or come from an untrusted source.
"""
