# Two commands are all a newcomer needs:
#   make quickstart   install what is missing, build, prepare, run a first snippet in a machine
#   make check        install what tests need, run all of them
# Then: all, install, uninstall, packages, format, lint, sanitize, bench, bench-quick, clean.
# SAN=1 builds with ASan and UBSan.

CC        = gcc
MUSL_CC   = musl-gcc
PREFIX    = /usr/local
LIBDIR    = $(PREFIX)/lib
# The one place for it; `make version` writes it where else it has to stand.
VERSION   = 0.1.0
BUILD     = build$(if $(SAN),-san)
# V=1 shows whole command lines.
Q         = $(if $(V),,@)

LIBS      = libuv jansson libseccomp libarchive libssl libcrypto sqlite3 yaml-0.1
WARNINGS  = -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
            -Wvla -Wformat=2 -Wundef -Wcast-qual -Wconversion -Wno-sign-conversion \
            -Werror=implicit-function-declaration -Werror=incompatible-pointer-types \
            -Werror=int-conversion -Werror=return-type -Werror=format-security
HARDEN    = -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fstack-clash-protection
OPTIMIZE  = $(if $(SAN),-O1 -fno-omit-frame-pointer -fsanitize=address$(,)undefined \
            -fno-sanitize-recover=all,-O2 $(HARDEN))
,        := ,
COMMON    = -std=gnu17 -g -D_GNU_SOURCE -DMSB_VERSION='"$(VERSION)"' -Isrc -MMD -MP $(WARNINGS)
CFLAGS    = $(COMMON) $(OPTIMIZE) -fPIE -Wa,-I,. -Wa,-I,$(BUILD) \
            $(shell pkg-config --cflags $(LIBS) 2>/dev/null)
LDFLAGS   = -pie -Wl,-z,relro,-z,now,--as-needed $(if $(SAN),-fsanitize=address$(,)undefined)
# libarchive goes in as far as it is used: the shared one brings ICU and the library of C++ along for
# formats that nobody here reads, and every start of msb would load them.
ARCHIVE   = -l:libarchive.a -llzma -lzstd -llz4 -lbz2 -lz
SHARED    = $(shell pkg-config --libs $(LIBS) 2>/dev/null) -lhttp_parser -lwslay
LDLIBS    = $(patsubst -larchive,$(ARCHIVE),$(SHARED))

# The agent runs alone in any image: static, musl, small.
AGENT_CFLAGS = $(COMMON) -Os $(HARDEN) -fno-pie -Wa,-I,. -Wa,-I,$(BUILD)

HOST_SRC  = $(filter-out src/cli/main.c,$(wildcard src/base/*.c src/proto/*.c src/engine/*.c \
            src/engine/vm/*.c src/engine/jail/*.c src/image/*.c src/image/oci/*.c src/sandbox/*.c \
            src/project/*.c src/session/*.c src/server/*.c src/server/http/*.c src/server/mcp/*.c \
            src/server/tools/*.c src/cli/*.c))
HOST_OBJ  = $(HOST_SRC:%.c=$(BUILD)/%.o)
AGENT_SRC = $(wildcard src/agent/*.c src/proto/*.c) $(addprefix src/base/,buf.c clock.c error.c \
            fdpass.c file.c json_text.c log.c loopback.c mem.c signals.c utf8.c)
AGENT_OBJ = $(AGENT_SRC:%.c=$(BUILD)/agent/%.o)
UNIT      = $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(wildcard tests/unit/test_*.c))
ALL_C     = $(shell git ls-files --cached --others --exclude-standard '*.c' '*.h')
ALL_SH    = $(shell git ls-files --cached --others --exclude-standard '*.sh' '*.bash' '*.bats' \
            .ci/run tests/run tests/own-groups tests/soak tests/hosts/host 'tests/hosts/check-*' 'tests/packages/check-*' 'tools/*' bench/http \
            'debian/msb.p*' debian/msb-service)

all: $(BUILD)/msb

$(BUILD)/msb: $(HOST_OBJ) $(BUILD)/src/cli/main.o
	@echo "  LD     $@"
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(BUILD)/msb-agent: $(AGENT_OBJ)
	@echo "  LD     $@"
	$(Q)$(MUSL_CC) -static -no-pie -Wl,-z,relro,-z,now -s -o $@ $^

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC     $<"
	$(Q)$(CC) $(CFLAGS) -c -o $@ $<

$(BUILD)/agent/%.o: %.c
	@mkdir -p $(@D)
	@echo "  MUSL   $<"
	$(Q)$(MUSL_CC) $(AGENT_CFLAGS) -c -o $@ $<

# Files that go into the program byte for byte.
$(BUILD)/src/engine/agent_program.o: $(BUILD)/msb-agent
$(BUILD)/src/engine/vm/confine_root.o: $(addprefix $(BUILD)/,capstone.so pmem.so sasl.so thaw)
$(BUILD)/src/image/recipes.o: $(wildcard images/*)
$(BUILD)/src/server/openapi.o: src/server/openapi.json
$(BUILD)/src/server/tools/offer.o: src/server/tools/sandbox.json src/server/tools/sessions.json
$(BUILD)/src/server/tools/pictures.o: src/server/tools/shrink.py
$(BUILD)/agent/src/agent/language.o: $(wildcard src/agent/runtimes/*) $(BUILD)/hand_over.so

ALONE = $(CC) -std=gnu17 $(WARNINGS) -O2 -fPIC -shared -nostdlib -s -Wl,-z,relro,-z,now

$(BUILD)/hand_over.so: src/agent/runtimes/hand_over.c
	@mkdir -p $(@D)
	@echo "  LD     $@"
	$(Q)$(ALONE) -o $@ $<

STAND_INS = $(addprefix $(BUILD)/,capstone.so pmem.so sasl.so)
$(BUILD)/pmem.so: NAMES = -Wl,-soname,libpmem.so.1 -Wl,--version-script=src/engine/vm/inside/pmem.map
$(BUILD)/sasl.so: NAMES = -Wl,-soname,libsasl2.so.2 -Wl,--version-script=src/engine/vm/inside/sasl.map
$(STAND_INS): $(BUILD)/%.so: src/engine/vm/inside/%.c
	@mkdir -p $(@D)
	@echo "  LD     $@"
	$(Q)$(ALONE) -Wl,-z,noseparate-code $(NAMES) -o $@ $<

# A program without any library, which lies where no other program does.
$(BUILD)/thaw: src/engine/vm/inside/thaw.c src/engine/vm/frozen.h
	@mkdir -p $(@D)
	@echo "  LD     $@"
	$(Q)$(CC) -std=gnu17 -D_GNU_SOURCE $(WARNINGS) -O2 -ffreestanding -fno-stack-protector -static -no-pie -nostdlib \
		-Wl,--build-id=none -s -Isrc -o $@ $<

$(BUILD)/tests/%: tests/unit/%.c $(HOST_OBJ)
	@mkdir -p $(@D)
	@echo "  TEST   $<"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $< $(HOST_OBJ) $(SHARED) -lcmocka

$(BUILD)/tests/mcp-fixture: tests/mcp/fixture.c $(HOST_OBJ)
	@mkdir -p $(@D)
	@echo "  TEST   $<"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $< $(HOST_OBJ) $(LDLIBS)

# The library for C programs that use a server.
SDK_SRC   = $(wildcard sdk/c/*.c)
SDK_OBJ   = $(SDK_SRC:%.c=$(BUILD)/%.o)
SDK_LIBS  = libcurl jansson libcrypto
SONAME    = libmsb.so.0

$(BUILD)/sdk/c/%.o: sdk/c/%.c
	@mkdir -p $(@D)
	@echo "  CC     $<"
	$(Q)$(CC) $(COMMON) $(OPTIMIZE) -fPIC -fvisibility=hidden -Iinclude -c -o $@ $<

$(BUILD)/libmsb.a: $(SDK_OBJ)
	@echo "  AR     $@"
	$(Q)ar rcs $@ $^

$(BUILD)/$(SONAME): $(SDK_OBJ)
	@echo "  LD     $@"
	$(Q)$(CC) -shared -Wl,-soname,$(SONAME),-z,relro,-z,now,--as-needed \
	    $(if $(SAN),-fsanitize=address$(,)undefined) -o $@ $^ $(shell pkg-config --libs $(SDK_LIBS))
	$(Q)ln -sf $(SONAME) $(BUILD)/libmsb.so

# Written each time, for another PREFIX is no newer file.
.PHONY: $(BUILD)/msb.pc
$(BUILD)/msb.pc: sdk/c/msb.pc.in
	$(Q)sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@VERSION@|$(VERSION)|' $< >$@

library: $(BUILD)/libmsb.a $(BUILD)/$(SONAME) $(BUILD)/msb.pc

# ---- for people ---------------------------------------------------------------------------------

BUILD_PACKAGES = gcc libc6-dev musl-tools pkg-config libuv1-dev libjansson-dev libseccomp-dev \
                 libarchive-dev libssl-dev libhttp-parser-dev libwslay-dev libsqlite3-dev libyaml-dev \
                 libcurl4-openssl-dev liblzma-dev libzstd-dev liblz4-dev libbz2-dev zlib1g-dev
RUN_PACKAGES   = qemu-system-x86 qemu-utils e2fsprogs mmdebstrap debian-archive-keyring erofs-utils tar uidmap \
                 libcurl4
TEST_PACKAGES  = libcmocka-dev bats python3 nodejs curl openssl procps util-linux iproute2 \
                 docker-registry skopeo umoci apache2-utils busybox-static zstd bsdutils zsh groff
PEER_PACKAGES  = bubblewrap crun golang-github-containers-common podman runsc systemd-container \
                 qemu-system-x86 busybox-static python3
LINT_PACKAGES  = clang-format clang-tidy cppcheck shellcheck

# Every processor, unless the caller has said how many.
JOBS = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc))

quickstart:
	@tools/install-packages $(BUILD_PACKAGES) $(RUN_PACKAGES)
	@$(MAKE) --no-print-directory $(JOBS) all
	@build/msb prepare python
	@echo
	@echo "\$$ build/msb exe python -c 'import platform; print(6*7, \"from Linux\", platform.release())'"
	@build/msb exe python --verbose -c 'import platform; print(6*7, "from Linux", platform.release())'
	@echo
	@echo "Next: build/msb exe python    build/msb --help    make install"

check:
	@tools/install-packages $(BUILD_PACKAGES) $(RUN_PACKAGES) $(TEST_PACKAGES)
	@$(MAKE) --no-print-directory $(JOBS) all library $(UNIT) $(BUILD)/tests/mcp-fixture
	@BUILD=$(BUILD) tests/run

# A part of the tests in a Debian host with KVM and systemd, which QEMU emulates: hours. KVM names files.
HOST_PACKAGES = $(RUN_PACKAGES) bats busybox-static curl openssl procps zstd bsdutils
check-kvm:
	@tools/install-packages $(BUILD_PACKAGES) $(RUN_PACKAGES) openssh-client
	@$(MAKE) --no-print-directory $(JOBS) all
	@MSB_HOME=$${MSB_TEST_HOME:-build/test-home} build/msb prepare python node
	@HOST_PACKAGES="$(HOST_PACKAGES)" tests/hosts/check-kvm $(KVM)

# Hostile bytes for both sides of the agent protocol, the proxy, the server, images and Sandboxfiles,
# FUZZ_SECONDS long each.
FUZZ_SECONDS = 60
FUZZ_HOST    = $(wildcard src/base/*.c src/proto/*.c) $(addprefix src/sandbox/,client.c collect.c \
               egress_policy.c link.c proxy_request.c records.c writer.c)
FUZZ_frame   = $(FUZZ_HOST)
FUZZ_proxy   = $(FUZZ_HOST)
FUZZ_multipart = $(wildcard src/base/*.c) src/server/http/multipart.c
FUZZ_http    = $(wildcard src/base/*.c) $(addprefix src/server/http/,parse.c request.c route.c)
FUZZ_websocket = $(wildcard src/base/*.c) $(addprefix src/server/http/,handshake.c parse.c request.c websocket.c)
FUZZ_response  = $(wildcard src/base/*.c) $(addprefix src/server/http/,parse.c request.c response.c)
FUZZ_agent   = $(wildcard src/base/*.c src/proto/*.c) $(addprefix src/agent/,account.c \
               exec_request.c file_request.c limits.c loop.c machine.c privileges.c scope.c settings.c \
               spawn.c)
FUZZ_layer   = $(wildcard src/base/*.c) $(addprefix src/image/oci/,layer.c marks.c tree.c)
FUZZ_manifest = $(wildcard src/base/*.c) src/image/store.c \
               $(addprefix src/image/oci/,challenge.c manifest.c)
FUZZ_sandboxfile = $(wildcard src/base/*.c) $(addprefix src/project/,edit.c load.c order.c yaml.c) \
               $(addprefix src/sandbox/,config.c config_network.c egress_policy.c)
fuzz: fuzz-frame fuzz-agent fuzz-proxy fuzz-http fuzz-multipart fuzz-websocket fuzz-response \
      fuzz-layer fuzz-manifest fuzz-sandboxfile
fuzz-%:
	@tools/install-packages clang
	@tools/install-packages libclang-rt-$$(clang -dumpversion | cut -d. -f1)-dev
	@mkdir -p build/fuzz/corpus-$*
	clang -std=gnu17 -D_GNU_SOURCE -Isrc -g -O1 -fsanitize=fuzzer,address,undefined \
	    -fno-sanitize-recover=all \
	    -o build/fuzz/fuzz_$* tests/fuzz/fuzz_$*.c $(FUZZ_$*) $(LDLIBS)
	build/fuzz/fuzz_$* -max_total_time=$(FUZZ_SECONDS) build/fuzz/corpus-$* tests/fuzz/corpus/$*

# The same tests against a build that aborts on any memory error or undefined behaviour.
sanitize:
	@$(MAKE) --no-print-directory check SAN=1

soak: all
	@tests/soak

# quickstart and check on Debian 13, in a root of its own below build/hosts; as root.
.PHONY: check-trixie
check-trixie:
	@tests/hosts/check-trixie

format:
	@tools/install-packages clang-format
	clang-format -i $(ALL_C)

lint:
	@tools/install-packages $(LINT_PACKAGES)
	clang-format --dry-run --Werror $(ALL_C)
	clang-tidy --quiet --warnings-as-errors='*' $(filter-out src/agent/% tests/%,$(filter %.c,$(ALL_C))) \
	    -- -Iinclude $(filter-out -MMD -MP,$(CFLAGS))
	cppcheck --quiet --error-exitcode=1 --enable=warning,performance,portability --inline-suppr \
	    --suppress=missingIncludeSystem --suppress=internalAstError --suppress=ctuuninitvar \
	    -Isrc -D_GNU_SOURCE -D__x86_64__ --std=c11 src
	shellcheck -x $(ALL_SH)

# msb beside what else a user could pick, in about 15 minutes; BENCH holds options of bench/run. Peers that
# cannot be installed are named in the table.
bench: all
	@for package in $(PEER_PACKAGES); do \
	    tools/install-packages $$package || echo "$$package cannot be installed"; \
	done
	@bench/run $(BENCH)

bench-quick: override BENCH += --quick
bench-quick: bench

# The same, and docs/benchmarks.md and its chart are written anew.
bench-docs: override BENCH += --docs
bench-docs: bench

# A container image of the server. CONTAINER_IMAGES are the sandbox images that it brings along, with the
# kernel, from the home folder of whoever builds it; without any it is small and has to be given some.
CONTAINER_PACKAGES = mmdebstrap umoci skopeo binutils
CONTAINER_IMAGES   = python
CONTAINER_ARCHIVE  = build/msb-$(VERSION).oci.tar
container-image: all
	@tools/install-packages $(CONTAINER_PACKAGES) $(RUN_PACKAGES)
	@tools/container-image build/msb $(VERSION) $(CONTAINER_ARCHIVE) $(CONTAINER_IMAGES)

# The image in rootless podman, with ever less rights; needs root, to make a user for that.
check-container: all
	@tools/install-packages $(CONTAINER_PACKAGES) $(RUN_PACKAGES) podman crun uidmap slirp4netns python3 \
	    golang-github-containers-common
	@tests/hosts/check-container
.PHONY: container-image check-container

# What `install` writes, and `uninstall` removes.
BASH_COMPLETIONS = $(PREFIX)/share/bash-completion/completions
ZSH_COMPLETIONS  = $(PREFIX)/share/zsh/site-functions
INSTALLED = $(PREFIX)/bin/msb $(PREFIX)/include/msb.h $(LIBDIR)/libmsb.a $(LIBDIR)/$(SONAME) \
            $(LIBDIR)/libmsb.so $(LIBDIR)/pkgconfig/msb.pc $(PREFIX)/share/man/man1/msb.1 \
            $(BASH_COMPLETIONS)/msb $(ZSH_COMPLETIONS)/_msb

install: all library
	install -D -m 0755 build/msb $(DESTDIR)$(PREFIX)/bin/msb
	install -D -m 0644 include/msb.h $(DESTDIR)$(PREFIX)/include/msb.h
	install -D -m 0644 build/libmsb.a $(DESTDIR)$(LIBDIR)/libmsb.a
	install -D -m 0755 build/$(SONAME) $(DESTDIR)$(LIBDIR)/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(LIBDIR)/libmsb.so
	install -D -m 0644 build/msb.pc $(DESTDIR)$(LIBDIR)/pkgconfig/msb.pc
	build/msb help --man | install -D -m 0644 /dev/stdin $(DESTDIR)$(PREFIX)/share/man/man1/msb.1
	build/msb completion bash | install -D -m 0644 /dev/stdin $(DESTDIR)$(BASH_COMPLETIONS)/msb
	build/msb completion zsh | install -D -m 0644 /dev/stdin $(DESTDIR)$(ZSH_COMPLETIONS)/_msb

# Files only: whether somebody else wants a folder that is empty now, nobody here knows.
uninstall:
	rm -f $(INSTALLED:%=$(DESTDIR)%)

# ---- packages -----------------------------------------------------------------------------------

DEB_PACKAGES    = build-essential debhelper dpkg-dev lintian
PYTHON_PACKAGES = python3 python3-build python3-setuptools python3-wheel python3-venv
NODE_PACKAGES   = $(if $(shell command -v npm),,npm)

# Writes VERSION into the packages' own files.
version:
	tools/set-version $(VERSION)

# build/deb/*.deb. DEB_SUFFIX makes a version that is higher than this one: +1
deb:
	@tools/install-packages $(BUILD_PACKAGES) $(DEB_PACKAGES)
	@tools/build-deb build/deb $(DEB_SUFFIX)

# build/python/: wheel and sdist; build/js/: what `npm install` takes
python-package:
	@tools/install-packages $(PYTHON_PACKAGES)
	@tools/build-sdk python build/python

js-package:
	@tools/install-packages $(NODE_PACKAGES)
	@tools/build-sdk js build/js

packages: deb python-package js-package

# The packages of Python and JavaScript in clean environments, against a server.
check-sdk-packages: python-package js-package
	@tools/install-packages $(BUILD_PACKAGES) $(RUN_PACKAGES)
	@$(MAKE) --no-print-directory $(JOBS) all
	@tests/packages/check-sdk build/python build/js

# The Debian packages in a fresh Debian: installed, looked at, purged. Needs root and a Debian mirror.
check-deb:
	@tools/install-packages $(RUN_PACKAGES)
	@$(MAKE) --no-print-directory deb
	@tests/packages/check-deb build/deb

# The same with systemd in a test host: service, first sandbox, upgrade, purge. About half an hour.
check-service: deb
	@tools/install-packages $(RUN_PACKAGES) openssh-client busybox-static python3
	@$(MAKE) --no-print-directory $(JOBS) all
	@rm -rf build/deb-next && tools/build-deb build/deb-next +1
	@tests/packages/check-service build/deb build/deb-next

clean:
	rm -rf build build-san

.PHONY: all library quickstart check check-kvm check-trixie soak fuzz sanitize format lint bench bench-quick \
        bench-docs install uninstall version deb python-package js-package packages check-sdk-packages check-deb \
        check-service clean
-include $(SDK_OBJ:.o=.d) $(HOST_OBJ:.o=.d) $(AGENT_OBJ:.o=.d) $(UNIT:=.d) $(BUILD)/src/cli/main.d
