"""Measuring, in a guest or on the running kernel."""
