# PGXS is the one true build: `make && make install`. Everything else (quickstart, test, bench, fuzz, lint) is in scripts/.
# Another server version: make PG_CONFIG=/path/to/pg_config

EXTENSION   = outbox
EXTVERSION  = 0.2
MODULE_big  = outbox
UPGRADES    = $(sort $(notdir $(wildcard schema/upgrade/*)))
DATA_built  = outbox--$(EXTVERSION).sql $(UPGRADES:%=outbox--%.sql)
EXTRA_CLEAN = $(SINK_PROGRAMS) build results output_iso $(OBJS:.o=.d)

# Folders whose sources never see a Postgres header ([-]) and those that do ([P]): see CONTRIBUTING.md, "The wall".
PORTABLE_DIRS = src/base src/format src/relay $(patsubst %/,%,$(sort $(wildcard src/relay/*/))) src/sink $(SINKS_INSIDE)
PG_DIRS    = src src/pg src/metrics src/days src/emit src/inbox src/parked src/log $(patsubst %/,%,$(sort $(wildcard src/log/*/))) src/worker $(patsubst %/,%,$(sort $(wildcard src/admin/*/)))

# One folder of src/sink per kind of destination (src/sink/README.md). What has a main.cpp is a program of its own, apart
# from what it tells the rest of outbox of itself; the others live inside of outbox.so.
SINKS        = $(patsubst src/sink/%/main.cpp,%,$(sort $(wildcard src/sink/*/main.cpp)))
SINKS_INSIDE = $(filter-out $(SINKS:%=src/sink/%),$(patsubst %/kind.cpp,%,$(sort $(wildcard src/sink/*/kind.cpp))))
KIND_SRCS    = $(sort $(wildcard $(foreach sink,$(SINKS),src/sink/$(sink)/kind.cpp src/sink/$(sink)/options.cpp)))

PORTABLE_SRCS = $(sort $(wildcard $(addsuffix /*.cpp,$(PORTABLE_DIRS))) $(KIND_SRCS))
PG_SRCS    = $(sort $(wildcard $(addsuffix /*.cpp,$(PG_DIRS))))
OBJS       = $(PG_SRCS:.cpp=.o) $(PORTABLE_SRCS:.cpp=.o)

SHLIB_EXPORTS = exports.txt
SHLIB_LINK   += -lstdc++ -Wl,-z,relro -Wl,-z,now

# Warnings are errors in our own tests and checks (they set WERROR), where they are read and mended; whoever only builds has
# perhaps a compiler that knows more of them.
WERROR         ?=
OUTBOX_CXXFLAGS = -std=c++20 -Wall -Wextra $(WERROR) -Wno-register -Isrc
# What the scripts build has -g1, lines for stack traces and no more: a third less to compile.
DEBUG_INFO      =
# clang knows no such flag, and makes no such symbols. Asked once, when PGXS has said which compiler it is.
GNU_ONLY        = $(eval GNU_ONLY := $(if $(findstring clang,$(shell $(CXX) --version 2>/dev/null)),,-fno-gnu-unique))$(GNU_ONLY)
PG_CXXFLAGS    += $(OUTBOX_CXXFLAGS) $(DEBUG_INFO) -Wno-unused-parameter $(GNU_ONLY) -MMD -MP

SCHEMA_PARTS = $(sort $(wildcard schema/*.sql))

REGRESS        = $(sort $(notdir $(basename $(wildcard sql/*.sql))))
ISOLATION      = $(sort $(notdir $(basename $(wildcard test/specs/*.spec))))
ISOLATION_OPTS = --inputdir=test

PG_CONFIG ?= pg_config
# What is a script installs what is missing itself, PostgreSQL too; all else needs it here and now.
COMMANDS = quickstart test test-all test-clients test-inbox test-matrix chaos bench bench-quick fuzz valgrind lint format deb
# No bitcode, though the server may have been built with LLVM: its JIT compiler inlines only what SQL names by $libdir/, and
# outbox.control does not, so that extension_control_path works. It would be half of the build.
override with_llvm = no
PGXS := $(wildcard $(shell command -v $(PG_CONFIG) >/dev/null && $(PG_CONFIG) --pgxs 2>/dev/null))
ifneq ($(PGXS),)
include $(PGXS)
else ifneq ($(filter-out wall $(COMMANDS),$(or $(MAKECMDGOALS),all)),)
$(error there is no PostgreSQL to build with ($(PG_CONFIG) --pgxs names none): scripts/install-deps build installs Debian's)
endif

# A server that somebody compiled with no flags of their own has nothing against overruns; the sinks are linked with what is
# compiled for the library. What a packager chose stays.
HARDENED_CXXFLAGS := $(if $(findstring -fstack-protector,$(CXXFLAGS)),,-fstack-protector-strong)
HARDENED_CPPFLAGS := $(if $(findstring _FORTIFY_SOURCE,$(CXXFLAGS) $(CPPFLAGS)),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
$(OBJS): override CXXFLAGS += $(HARDENED_CXXFLAGS)
$(OBJS): override CPPFLAGS += $(HARDENED_CPPFLAGS)

# A build with fault points (only scripts/test makes one) and one without share nothing that knows of them: whoever
# includes the header is compiled anew when the kind of build changes.
FAULT_STAMP = build/.fault-points-$(if $(OUTBOX_FAULT_POINTS),on,off)
FAULT_SRCS := $(shell grep -l '^.include "base/fault_point.h"' $(PG_SRCS) $(PORTABLE_SRCS) $(wildcard src/sink/*/*.cpp) /dev/null)
FAULT_FLAG  = $(if $(OUTBOX_FAULT_POINTS),-DOUTBOX_FAULT_POINTS)
# What was compiled for one server does not load into another: it is compiled anew when PG_CONFIG names one whose headers are elsewhere.
SERVER_STAMP := build/.server$(subst /,-,$(shell $(PG_CONFIG) --includedir-server 2>/dev/null))
# Made here and not by a rule: PGXS declares everything .SECONDARY, so a file that is missing would not be made.
ifneq ($(filter-out wall $(COMMANDS),$(or $(MAKECMDGOALS),all)),)
$(shell mkdir -p build)
$(shell [ -e $(FAULT_STAMP) ] || { rm -f build/.fault-points-* && touch $(FAULT_STAMP); })
$(shell [ -e $(SERVER_STAMP) ] || { rm -f build/.server-* && touch $(SERVER_STAMP); })
endif
$(OBJS): $(SERVER_STAMP)
# `make clean all`: clean took them along.
$(FAULT_STAMP) $(SERVER_STAMP):
	@$(MKDIR_P) build && touch $@
$(FAULT_SRCS:.cpp=.o): $(FAULT_STAMP)
$(FAULT_SRCS:.cpp=.o): override CXXFLAGS += $(FAULT_FLAG)
# For scripts/bench-metrics alone: a library that counts nothing.
ifdef OUTBOX_WITHOUT_FIGURES
src/metrics/store.o: override CXXFLAGS += -DOUTBOX_WITHOUT_FIGURES
endif

# Objects follow their headers: every compile writes a .d file beside the object.
-include $(OBJS:.o=.d)

# --- the install script: schema/ in order, one file ------------------------------------------------------------------
outbox--$(EXTVERSION).sql: $(SCHEMA_PARTS)
	cat $^ > $@

# --- and one for each step from a version to the next: schema/upgrade/FROM--TO/ in order. Its file REPLACE names the parts of
# schema/ that the step runs again, all of whose statements may be run again; 30_sink_*.sql: every kind of destination, also
# one that is new; 98_rights.sql: to whom belongs what all of them made. 99_finish.sql comes last. FIRST names those that it
# runs before anything else, too; so a part may be in it twice.
first    = $(addprefix schema/,$(file <schema/upgrade/$(1)/FIRST))
replaced = $(foreach part,$(file <schema/upgrade/$(1)/REPLACE),$(or $(sort $(wildcard schema/$(part))),schema/$(part)))
define UPGRADE_RULE
outbox--$(1).sql: schema/upgrade/$(1)/00_guard.sql $$(call first,$(1)) \
    $$(filter-out %/00_guard.sql %/99_finish.sql,$$(wildcard schema/upgrade/$(1)/*.sql)) $$(call replaced,$(1)) \
    schema/upgrade/$(1)/99_finish.sql
	cat $$(filter %.sql,$$+) > $$@
outbox--$(1).sql: $(wildcard schema/upgrade/$(1)/FIRST schema/upgrade/$(1)/REPLACE)
endef
$(foreach step,$(UPGRADES),$(eval $(call UPGRADE_RULE,$(step))))

# --- sink executables: the only programs that link a broker library --------------------------------------------------
# What they share with the library is compiled once; the rest without Postgres flags, kept apart by the kind of build. A
# sink's file `needs` says what it is built with.
SINK_PROGRAMS = $(SINKS:%=outbox-sink-%)
# They read what brokers send, so they get what the compiler has against overruns, whatever the server was built with. COPT
# and LDFLAGS as PGXS takes them: a packager's own.
SINK_HARDENED = -fPIE -fstack-protector-strong -fstack-clash-protection -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3
SINK_LDFLAGS  = -pie -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack $(LDFLAGS)
SINK_CXXFLAGS = $(OUTBOX_CXXFLAGS) -O2 -g $(SINK_HARDENED) $(COPT) $(DEBUG_INFO) -pthread -MMD -MP
SINK_OBJ_DIR  = build/sink$(if $(OUTBOX_FAULT_POINTS),-fault-points)
sink_objs     = $(patsubst src/%.cpp,$(SINK_OBJ_DIR)/%.o,$(wildcard $(1)))
SINK_COMMON   = $(patsubst %.cpp,%.o,$(sort $(wildcard src/base/*.cpp src/sink/*.cpp $(SINKS_INSIDE:%=%/*.cpp)) $(KIND_SRCS)))
# $(call sink_needs,sink,word): what follows that word in the file.
sink_needs    = $(shell sed -n 's/^$(2) //p' src/sink/$(1)/needs 2>/dev/null)

# The first of a sink's allocators that is there; OUTBOX_ALLOCATOR=libc leaves them all out.
sink_allocator = $(if $(filter libc,$(OUTBOX_ALLOCATOR)),,$(firstword $(foreach name,$(call sink_needs,$(1),allocator),$(if \
  $(shell pkg-config --exists $(name) 2>/dev/null && echo yes),$(name)))))

comma := ,

define SINK_RULES
SINK_$(1)_OBJS     := $$(filter-out $$(call sink_objs,$$(KIND_SRCS)),$$(call sink_objs,src/sink/$(1)/*.cpp))
SINK_$(1)_ALLOCATOR := $$(call sink_allocator,$(1))
SINK_$(1)_PACKAGES := $$(call sink_needs,$(1),pkg-config)
SINK_OBJS += $$(SINK_$(1)_OBJS)
$$(SINK_$(1)_OBJS): SINK_CXXFLAGS += $$(if $$(strip $$(SINK_$(1)_PACKAGES)),$$$$(pkg-config --cflags $$(SINK_$(1)_PACKAGES)))
outbox-sink-$(1): $$(SINK_COMMON) $$(SINK_$(1)_OBJS) $$(FAULT_STAMP)
	$$(CXX) -pthread $$(SINK_LDFLAGS) -o $$@ $$(filter %.o,$$^) $$(if $$(SINK_$(1)_ALLOCATOR),-Wl$$(comma)--no-as-needed $$$$(pkg-config --libs $$(SINK_$(1)_ALLOCATOR))) \
	  $$(if $$(strip $$(SINK_$(1)_PACKAGES)),$$$$(pkg-config --libs $$(SINK_$(1)_PACKAGES)))
	@echo "$$@: malloc of $$(or $$(SINK_$(1)_ALLOCATOR),the C library)$$(if $$(SINK_$(1)_ALLOCATOR), $$$$(pkg-config --modversion $$(SINK_$(1)_ALLOCATOR)))"
endef
$(foreach sink,$(SINKS),$(eval $(call SINK_RULES,$(sink))))

$(SINK_OBJS): $(SINK_OBJ_DIR)/%.o: src/%.cpp
	@$(MKDIR_P) $(@D)
	$(CXX) $(SINK_CXXFLAGS) $(if $(filter $<,$(FAULT_SRCS)),$(FAULT_FLAG)) -c -o $@ $<
-include $(SINK_OBJS:.o=.d)

all: wall $(SINK_PROGRAMS)

# Compiled, not linked: what another compiler has to say (scripts/test-matrix).
objects: $(OBJS) $(SINK_OBJS)

install: install-sinks
install-sinks: $(SINK_PROGRAMS)
	$(MKDIR_P) '$(DESTDIR)$(pkglibdir)'
	$(INSTALL_PROGRAM) $(SINK_PROGRAMS) '$(DESTDIR)$(pkglibdir)/'

uninstall: uninstall-sinks
uninstall-sinks:
	rm -f $(SINK_PROGRAMS:%='$(DESTDIR)$(pkglibdir)/%')

# --- the wall: no Postgres header behind it, no file with both kinds -------------------------------------------------
wall:
	@scripts/check-wall

# --- one command each ------------------------------------------------------------------------------------------------
quickstart:
	@scripts/quickstart
test:
	@scripts/test $(TESTS)
test-all:
	@scripts/test all $(TESTS)
test-clients:
	@scripts/test clients
test-inbox:
	@scripts/test inbox
chaos:
	@MINUTES="$(MINUTES)" SEED="$(SEED)" ROUND="$(ROUND)" KIND="$(KIND)" scripts/chaos
bench:
	@scripts/bench $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(RIVALS),--rivals $(RIVALS)) $(if $(WRITE),--write) $(PARTS)
bench-quick:
	@scripts/bench-quick
fuzz:
	@scripts/fuzz $(SECONDS)
valgrind:
	@scripts/test valgrind
lint:
	@scripts/lint
format:
	@scripts/format
deb:
	@scripts/deb
test-matrix:
	@scripts/test-matrix $(ROWS)

.PHONY: wall objects $(COMMANDS) install-sinks uninstall-sinks
