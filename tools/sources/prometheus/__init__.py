"""Prometheus range exports and the text of exporters."""
