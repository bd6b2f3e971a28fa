"""Prepare, build, boot, test and measure the inline dm-crypt patch queues. CONTRIBUTING.md describes the packages."""
