# SPDX-License-Identifier: GPL-2.0
#
# The front door. Every target sets up what it needs in the cache (outside this
# tree) and leaves its results under build/. The work is done by tools/*.sh.

# Nobody is to wait for a kernel build before the first run.
ifneq ($(filter run,$(MAKECMDGOALS)),)
KERNEL ?= stock
endif
KERNEL ?= fast
STACK  ?= rust
T      ?= *
OUT    ?= build/guest
ifeq ($(ARCH),um)
override KERNEL := um
endif
export KERNEL VERSION STACK T STACK1 STACK2 NODES TIMEOUT MIRROR LINUX_TARBALL KDIR JOBS MINUTES DURATION SEED EQUIVALENT SURVIVORS MOST NETEM REPEATS QUICK VERBS CM

.PHONY: help run test fuzz miri mutants bench shell guest modules kernel setup check panics fmt doc deb patches install uninstall clean distclean
.DEFAULT_GOAL := help

help:
	@echo "make run        set up, boot, load our modules, run real RDMA programs over them"
	@echo "make test       host tests, then the guest suite (T='2*' selects by name)"
	@echo "make fuzz   coverage-guided fuzzing of engines, rings and packets (MINUTES=30, T=packets|rings|wire)"
	@echo "make miri       the host tests of unsafe code under Miri (needs rustup's nightly toolchain with miri)"
	@echo "make mutants    score the host tests by mutation (MINUTES=30, SEED=1, T=glob over files; EQUIVALENT=1 checks the list)"
	@echo "make bench      C against Rust, into Documentation/performance.md (REPEATS=3; QUICK=1, or instead: NETEM=1 bad wires, GRO=1 packets one by one, UD=1 datagrams, CORE=1 the cores, VERBS=1 ib_uverbs, CM=1 connections, FAIR=1 beside other work, ULP=1 kernel users, TCP=1 TCP and further sizes)"
	@echo "make shell      a root shell in the booted guest, modules loaded"
	@echo "make guest SCRIPT=FILE   run FILE as root in the guest, return its exit status"
	@echo "make modules    build our modules (KDIR=DIR against your own kernel)"
	@echo "make kernel     build the guest kernel only    make setup   roots and kernel"
	@echo "make check      formatting, lints, house rules      make fmt   format      make doc   Rust documentation"
	@echo "make panics     functions that panic, in modules with overflow checks: none but the known ones"
	@echo "make deb        the package rust-rdma-dkms, in build/deb; KERNEL=stock: and one of compiled modules"
	@echo "make patches    a series for git am that adds our modules to the kernel's source, in build/patches-7.2 (VERSION=7.3)"
	@echo "make install    put our modules before the stock ones of this machine; make uninstall"
	@echo "make clean      remove build/        make distclean   remove the cache as well"
	@echo
	@echo "KERNEL=fast|um|um-lockdep|lockdep|kcsan|stock|stock-7.3|patched|patched-y|debug   stock is the distribution's kernel, which make run takes unless told; else fast is the default; patched has our modules in its source, patched-y built in; debug is um, then um-lockdep; ARCH=um is KERNEL=um"
	@echo "STACK=rust|c|LIST   all of ours, none, or only the listed modules (STACK1=, STACK2= per node)"
	@echo "NODES=2 boots two guests on one wire. OUT=build/NAME keeps a guest's files apart. TIMEOUT=SECONDS bounds a guest. DURATION=SECONDS makes T=46* or T=80* last so long, SEED= repeats them. MIRROR=, LINUX_TARBALL=, JOBS="
	@echo "cache: $${XDG_CACHE_HOME:-$$HOME/.cache}/rust-rdma"

run:
	@tools/run.sh
test:
	@tools/test.sh
fuzz:
	@tools/fuzz.sh
miri:
	@tools/miri.sh
mutants:
	@tools/mutants.sh
bench:
	@tools/bench/run.sh
shell:
	@SHELL_MODE=1 TIMEOUT=86400 tools/boot.sh build/shell /dev/null
guest:
	@[ -n "$(SCRIPT)" ] || { echo "error: which script? say make guest SCRIPT=FILE"; exit 2; }
	@tools/boot.sh "$(OUT)" "$(SCRIPT)"
modules:
	@tools/modules.sh $(KERNEL)
kernel:
	@tools/kernel.sh $(KERNEL)
setup:
	@tools/roots.sh guest && tools/kernel.sh $(KERNEL)
check:
	@tools/check.sh
panics:
	@tools/panics.sh
fmt:
	@tools/check.sh fmt
doc:
	@tools/doc.sh
deb:
	@tools/deb.sh
patches:
	@tools/patches.sh
install uninstall:
	@tools/install.sh $@
clean distclean:
	@tools/clean.sh $@
