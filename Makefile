# SPDX-License-Identifier: GPL-2.0
# Every target forwards to tools/dmcrypt-inline, which does the work.

PYTHON ?= python3

# One word for the shell, whatever is in it.
quote = '$(subst ','\'',$(1))'
# An option, where its variable is set; a dollar in it stands for itself.
option = $(if $(value $(2)),$(1) $(call quote,$(value $(2))))
# The same for what counts only as it is written on the command line: another program's VERSION is no posting's,
# and nobody signs off by what a shell happens to export.
said = $(if $(filter command line,$(origin $(2))),$(call option,$(1),$(2)))

# Those that start from a tree, and those that boot guests.
FROM_TREE = $(filter-out report cache,$@)
NO_TARGET = cache package package-test
IN_GUESTS = $(filter demo selftest shell soak mutants bisect-check bench,$@)

FORWARD = $(PYTHON) tools/dmcrypt-inline $@ $(if $(filter-out $(NO_TARGET),$@),$(call option,--target,TARGET)) \
	$(if $(FROM_TREE),$(call option,--linux,LINUX) $(call option,--cryptsetup,CRYPTSETUP)) \
	$(if $(IN_GUESTS),$(call option,--accel,ACCEL)) \
	$(if $(filter selftest,$@),$(if $(QUICK),--quick)) $(if $(filter check,$@),$(call option,--only,CHECK)) \
	$(if $(filter selftest mutants package-test,$@),$(call option,--test,TEST)) \
	$(if $(filter package,$@),$(call said,--version,VERSION)) \
	$(if $(filter selftest shell,$@),$(call option,--variant,VARIANT)) \
	$(if $(filter soak,$@),$(SOAK)) $(if $(filter report,$@),$(call option,--results,RESULTS)) \
	$(if $(filter bench,$@),$(BENCH)) $(if $(filter outbox,$@),$(OUTBOX)) \
	$(if $(filter cache,$@),$(call said,--prune,PRUNE))

SOAK = $(call option,--minutes,MINUTES) $(call option,--seed,SEED)

BENCH = $(call option,--plan,PLAN) \
	$(if $(value VARIANT),--variant $(foreach each,$(value VARIANT),$(call quote,$(each))))

OUTBOX = $(call said,--sign,SIGN) $(call said,--trailer,TRAILER) $(call said,--version,VERSION)

.PHONY: help demo test check tree edit refresh am outbox selftest shell soak mutants bisect-check bench report cache package package-test

help:
	@echo 'make demo     from nothing to a booted kernel with inline dm-crypt, shown and measured'
	@echo 'make test     every check, and the tests in their short form; the last line counts them'
	@echo 'make check    the checks that need no guest'
	@echo 'make selftest the tests in guests, in full: selftests/ on the debug kernel (QUICK=1: the short form)'
	@echo 'make shell    a guest to look around in: the patched kernel, dm-crypt, cryptsetup; exit ends it'
	@echo 'make soak     random work in a guest: MINUTES=60, SEED=N to repeat a run'
	@echo 'make bench    the measurements: PLAN=quick|w1|w2|w3|w4|w5|curves|cost|full (default: full, up to 40 minutes)'
	@echo 'make mutants  drivers that are wrong on purpose: which test catches which'
	@echo 'make bisect-check  the kselftests, in short, on every commit of the queue (hours)'
	@echo 'make report   what a benchmark measured, as a page with charts (RESULTS=FILE: not the last one)'
	@echo 'make tree     build/TARGET/tree, a git repository with the tags base and series'
	@echo 'make edit     the same, and how to edit its commits; make refresh writes them back into the queue'
	@echo 'make am       LINUX=DIR: the queue that suits your tree, on a new branch there'
	@echo 'make outbox   SIGN="Name <mail>": the queue as mails for git send-email; nothing is sent'
	@echo 'make package  build/package: the fixed dm-crypt for installed kernels, as a package for dkms (VERSION=N)'
	@echo 'make package-test  that on Debian systems with an encrypted root, in guests, as root (TEST="NAME ...": some)'
	@echo 'make cache    what is kept between runs, and how large; PRUNE=30: remove what 30 days have not used'
	@echo 'make help     this text'
	@echo
	@echo 'All of them take'
	@echo '  TARGET=NAME     linux-5.8, linux-7.3, cryptsetup-2.3, or on top of linux-7.3 linux-7.3-sectors,'
	@echo '                  linux-7.3-library, linux-7.3-units (default: all for test and check, else linux-5.8);'
	@echo '                  linux-6.12, linux-6.1: long-term kernels, in no default: name them'
	@echo '  LINUX=DIR       your own kernel checkout or source tree, which is only read (make am adds a branch)'
	@echo '  CRYPTSETUP=DIR  your own cryptsetup checkout or source tree, likewise'
	@echo
	@echo 'make demo, selftest, soak, mutants, bisect-check and bench also take'
	@echo '  ACCEL=kvm|tcg   how the guest runs (default: KVM where a trial boot works)'
	@echo
	@echo 'make check also takes'
	@echo '  CHECK="NAME ..."               only these checks, by the names that they print'
	@echo
	@echo 'make selftest also takes'
	@echo '  TARGET=cryptsetup-2.3          the tests of cryptsetup, under User-Mode Linux'
	@echo '  TEST="NAME ..."                only these tests, or suites (dm-crypt, functional)'
	@echo '  VARIANT=path/to/dm-crypt.c     a driver of yours in place of the queue; base: what the queue applies to'
	@echo
	@echo 'make shell also takes VARIANT='
	@echo
	@echo 'make mutants also takes'
	@echo '  TEST="NAME ..."                only these drivers, or those that these tests must catch'
	@echo
	@echo 'make selftest, shell, soak, mutants and bisect-check also take'
	@echo '  ACCEL=native    under User-Mode Linux: much faster, but for linux-5.8 without debugging aids'
	@echo
	@echo 'make bench also takes'
	@echo "  VARIANT='NAME=path/to/dm-crypt.c ...'  further drivers (or .ko); each: the queue's patches one by one"
	@echo '  ACCEL=native    what a sector costs with real ciphers, under User-Mode Linux (PLAN=quick|full, linux-7.3 only);'
	@echo '                  PLAN=handover: what the default path costs and gains on two CPUs'
	@echo '  ACCEL=icount    TCG with one CPU and a clock that counts its instructions: figures repeat to the percent'
	@echo
	@echo 'make outbox also takes'
	@echo "  TRAILER='Word: text'  a line before the sign-off of each patch"
	@echo '  VERSION=N             of the posting (default: 1)'
	@echo
	@echo 'One stage at a time, with more help: tools/dmcrypt-inline --help'

demo test check tree edit refresh am outbox selftest shell soak mutants bisect-check bench report cache package package-test:
	@$(FORWARD)
