"""Tests in guests, and what they prove."""
