"""Tests in guests, and their results."""
