"""The same runs on an executor: a Dask cluster, a process pool, or anything else with a concurrent.futures interface.

    tasks      tasks on an executor: repeated when they are lost, sent data when the worker asks for them
    chains     slices of chains as tasks
    shards     thinning of a sharded tensor as tasks; all other steps run in the process that calls `fit`

The estimators and `comparison` import it; it imports what `run` may import.
"""
