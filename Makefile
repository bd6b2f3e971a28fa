# SPDX-License-Identifier: GPL-2.0
# Every target forwards to tools/dmcrypt-inline, which does the work.

PYTHON ?= python3

FORWARD = $(PYTHON) tools/dmcrypt-inline $@ $(if $(TARGET),--target '$(TARGET)') \
	$(if $(LINUX),--linux '$(LINUX)') $(if $(CRYPTSETUP),--cryptsetup '$(CRYPTSETUP)') \
	$(if $(ACCEL),--accel '$(ACCEL)') $(if $(filter selftest,$@),$(if $(QUICK),--quick)) \
	$(if $(filter report,$@),$(if $(RESULTS),--results '$(RESULTS)')) $(if $(filter bench,$@),$(BENCH)) \
	$(if $(filter outbox,$@),$(OUTBOX))

# A device may have to be overwritten only as it is written on the command line.
BENCH = $(if $(PLAN),--plan '$(PLAN)') $(if $(VARIANT),--variant $(foreach each,$(VARIANT),'$(each)')) \
	$(if $(filter-out 0,$(HERE)),--here) $(if $(DEVICE),--device '$(DEVICE)') \
	$(if $(filter command line,$(origin DESTROY_DATA)),--destroy-data '$(DESTROY_DATA)')

# A name may have an apostrophe.
OUTBOX = --sign '$(subst ','\'',$(SIGN))' $(if $(TRAILER),--trailer '$(subst ','\'',$(TRAILER))') \
	$(if $(VERSION),--version '$(VERSION)')

.PHONY: help demo test check tree edit refresh am outbox selftest mutants bisect-check bench report

help:
	@echo 'make demo     from nothing to a booted kernel with inline dm-crypt, shown and measured'
	@echo 'make test     every check, and the tests in their short form; the last line counts them'
	@echo 'make check    the checks that need no guest'
	@echo 'make selftest the tests in guests, in full: kselftests on the debug kernel (QUICK=1: as make test runs them)'
	@echo 'make bench    the measurements: PLAN=quick|w1|w2|w3|w4|w5|curves|cost|full (default: full, up to 40 minutes)'
	@echo 'make mutants  drivers that are wrong on purpose: which test catches which'
	@echo 'make bisect-check  the kselftests, in short, on every commit of the queue (hours)'
	@echo 'make report   what a benchmark measured, as a page with charts (RESULTS=FILE: not the last one)'
	@echo 'make tree     build/TARGET/tree, a git repository with the tags base and series'
	@echo 'make edit     the same, and how to edit its commits; make refresh writes them back into the queue'
	@echo 'make am       LINUX=DIR: the queue that suits your tree, on a new branch there'
	@echo 'make outbox   SIGN="Name <mail>": the queue as mails for git send-email; nothing is sent'
	@echo 'make help     this text'
	@echo
	@echo 'All of them take'
	@echo '  TARGET=NAME     linux-5.8, linux-7.3 or cryptsetup-2.3 (default: all for test and check, else linux-5.8)'
	@echo '  LINUX=DIR       your own kernel checkout or source tree, which is only read (make am adds a branch)'
	@echo '  CRYPTSETUP=DIR  your own cryptsetup checkout or source tree, likewise'
	@echo '  ACCEL=kvm|tcg   how the guest runs (default: KVM where a trial boot works)'
	@echo
	@echo 'make selftest also takes'
	@echo '  TARGET=cryptsetup-2.3          the tests of cryptsetup, under User-Mode Linux'
	@echo '  TARGET=linux-7.3 ACCEL=native  the kselftests there, in a quarter of an hour'
	@echo
	@echo 'make bisect-check also takes'
	@echo '  ACCEL=native    sooner: under User-Mode Linux, which for linux-5.8 has no debugging aids'
	@echo
	@echo 'make bench also takes'
	@echo "  VARIANT='NAME=path/to/dm-crypt.c ...'  further drivers (or .ko); each: the queue's patches one by one"
	@echo '  ACCEL=icount    TCG with one CPU and a clock that counts its instructions: figures repeat to the percent'
	@echo '  HERE=1          on the running kernel, as root, instead of in a guest'
	@echo '  DEVICE=/dev/... with HERE=1: your own device; it is only read,'
	@echo '                  unless DESTROY_DATA=/dev/... gives its name again'
	@echo
	@echo 'make outbox also takes'
	@echo "  TRAILER='Word: text'  a line before the sign-off of each patch"
	@echo '  VERSION=N             of the posting (default: 1)'
	@echo
	@echo 'One stage at a time, with more help: tools/dmcrypt-inline --help'

demo test check tree edit refresh am outbox selftest mutants bisect-check bench report:
	@$(FORWARD)
