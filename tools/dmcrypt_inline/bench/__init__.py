"""Measurements in guests."""
