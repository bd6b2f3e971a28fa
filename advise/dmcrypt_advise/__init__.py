"""Advise on dm-crypt's workqueue flags for this machine, and set them on request. Standard library only."""
