"""Prepare, build, boot, test and measure the inline dm-crypt patch queues. The rooms are in CONTRIBUTING.md."""
