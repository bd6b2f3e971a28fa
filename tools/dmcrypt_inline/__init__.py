"""Prepare, build, boot, test and measure the inline dm-crypt patch queues.

The modules follow the path that data takes: targets, base, series, build, the
guest, results. A stage imports no later stage; the values between them are
small frozen dataclasses.
"""
