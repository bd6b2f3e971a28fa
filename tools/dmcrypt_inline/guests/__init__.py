"""Booting a kernel, and what it complains about."""
