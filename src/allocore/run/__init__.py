"""Runs: chains of sweeps, where their draws are stored, and what a user sees meanwhile."""
