"""Finished runs: draws, summaries, the consensus of chains, prediction. Never imports the sampler."""
