"""Guests: kernels that boot in QEMU or User-Mode Linux, and their logs."""
