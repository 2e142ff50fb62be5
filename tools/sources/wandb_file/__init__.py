"""Weights & Biases run files (``run-ID.wandb``)."""
