"""Acceptance of the planners: exhaustive search, published figures, official solvers and real runs."""
