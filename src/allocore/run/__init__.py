"""Chains from start to end: in this process, or on an executor (`cluster/`); fold-in; and the memory that a run needs.

It may import `progress` and everything before it. `em` and everything after it may import this package.
"""
