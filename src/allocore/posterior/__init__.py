"""Finished runs: draws, summaries, prediction. Never imports the sampler."""
