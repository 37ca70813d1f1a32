"""Chains from start to end: in this process, or on an executor (`cluster/`); fold-in; and the memory that a run needs.

It may import `progress`, `storage` and everything before them; `em`, `posterior` and everything after may import it.
"""
