# SPDX-License-Identifier: GPL-2.0
# Each target is a stage of tools/dmcrypt-inline, which gets the variables of the command line: see make help.

PYTHON ?= python3

STAGES = demo test check selftest shell bench report mutants bisect-check prove outside tree refresh am outbox \
	package package-test cache list packages

# The variables that the command line sets, as NAME=value for the shell: a dollar or a quote in a value stands for itself.
quote = '$(subst ','\'',$(1))'
variables = $(foreach name,$(filter-out PYTHON,$(.VARIABLES)),\
	$(if $(filter command,$(origin $(name))),$(call quote,$(name)=$(value $(name)))))

.PHONY: help $(STAGES)

help:
	@$(PYTHON) tools/dmcrypt-inline --help

$(STAGES):
	@$(PYTHON) tools/dmcrypt-inline $(variables) $@
