"""Runs: chains of sweeps, the store of their draws, and progress for the user."""
