# PGXS is the one true build: `make && make install`. Everything else (quickstart, test, bench, fuzz, lint) is in scripts/.
# Another server version: make PG_CONFIG=/path/to/pg_config

EXTENSION   = outbox
EXTVERSION  = 0.2
MODULE_big  = outbox
UPGRADES    = $(sort $(notdir $(wildcard schema/upgrade/*)))
DATA_built  = outbox--$(EXTVERSION).sql $(UPGRADES:%=outbox--%.sql)
EXTRA_CLEAN = outbox-sink-kafka outbox-sink-redis build results output_iso $(OBJS:.o=.d)

# Folders whose sources never see a Postgres header ([-]) and those that do ([P]): see CONTRIBUTING.md, "The wall".
PLAIN_DIRS = src/base src/format src/relay src/sink src/sink/log
PG_DIRS    = src src/pg src/days src/emit src/parked src/log src/worker src/admin
SINK_KAFKA_DIRS = src/sink/kafka
SINK_REDIS_DIRS = src/sink/redis

PLAIN_SRCS = $(sort $(wildcard $(addsuffix /*.cpp,$(PLAIN_DIRS))))
PG_SRCS    = $(sort $(wildcard $(addsuffix /*.cpp,$(PG_DIRS))))
OBJS       = $(PG_SRCS:.cpp=.o) $(PLAIN_SRCS:.cpp=.o)

SHLIB_EXPORTS = exports.txt
SHLIB_LINK   += -lstdc++

OUTBOX_CXXFLAGS = -std=c++20 -Wall -Wextra -Werror -Wno-register -Isrc
PG_CXXFLAGS    += $(OUTBOX_CXXFLAGS) -Wno-unused-parameter -fno-gnu-unique -MMD -MP

SCHEMA_PARTS = $(sort $(wildcard schema/*.sql))

REGRESS        = $(sort $(notdir $(basename $(wildcard sql/*.sql))))
ISOLATION      = $(sort $(notdir $(basename $(wildcard test/specs/*.spec))))
ISOLATION_OPTS = --inputdir=test

PG_CONFIG ?= pg_config
# What is a script installs what is missing itself, PostgreSQL too; all else needs it here and now.
COMMANDS = quickstart test test-all chaos bench fuzz valgrind lint format
PGXS := $(wildcard $(shell command -v $(PG_CONFIG) >/dev/null && $(PG_CONFIG) --pgxs 2>/dev/null))
ifneq ($(PGXS),)
include $(PGXS)
else ifneq ($(filter-out wall $(COMMANDS),$(or $(MAKECMDGOALS),all)),)
$(error there is no PostgreSQL to build with ($(PG_CONFIG) --pgxs names none): scripts/install-deps build installs Debian's)
endif

# PGXS compiles bitcode with clang and without PG_CXXFLAGS; -Wno-unknown-warning-option keeps g++-only flags harmless.
COMPILE.cxx.bc += $(filter-out -fno-gnu-unique -MMD -MP,$(PG_CXXFLAGS)) -Wno-unknown-warning-option

# A build with fault points (only scripts/test makes one) and one without share nothing that knows of them: whoever
# includes the header is compiled anew when the kind of build changes.
FAULT_STAMP = build/.fault-points-$(if $(OUTBOX_FAULT_POINTS),on,off)
FAULT_SRCS := $(shell grep -l '^.include "base/fault_point.h"' $(PG_SRCS) $(PLAIN_SRCS) /dev/null)
FAULT_FLAG  = $(if $(OUTBOX_FAULT_POINTS),-DOUTBOX_FAULT_POINTS)
# Made here and not by a rule: PGXS declares everything .SECONDARY, so a file that is missing would not be made.
ifneq ($(filter-out wall $(COMMANDS),$(or $(MAKECMDGOALS),all)),)
$(shell [ -e $(FAULT_STAMP) ] || { mkdir -p build && rm -f build/.fault-points-* && touch $(FAULT_STAMP); })
endif
$(FAULT_SRCS:.cpp=.o): $(FAULT_STAMP)
$(FAULT_SRCS:.cpp=.o): override CXXFLAGS += $(FAULT_FLAG)

# Objects follow their headers: every compile writes a .d file beside the object.
-include $(OBJS:.o=.d)

# --- the install script: schema/ in order, one file ------------------------------------------------------------------
outbox--$(EXTVERSION).sql: $(SCHEMA_PARTS)
	cat $^ > $@

# --- and one for each step from a version to the next: schema/upgrade/FROM--TO/ in order. Its file REPLACE names the parts of
# schema/ that the step runs again, all of whose statements may be run again.
define UPGRADE_RULE
outbox--$(1).sql: $$(wildcard schema/upgrade/$(1)/*.sql) $$(addprefix schema/,$$(file <schema/upgrade/$(1)/REPLACE))
	cat $$^ > $$@
endef
$(foreach step,$(UPGRADES),$(eval $(call UPGRADE_RULE,$(step))))

# --- sink executables: the only programs that link a broker library --------------------------------------------------
# What they share with the library is compiled once; the rest without Postgres flags, kept apart by the kind of build.
SINK_CXXFLAGS = $(OUTBOX_CXXFLAGS) -O2 -g -pthread $(FAULT_FLAG) -MMD -MP
SINK_OBJ_DIR  = build/sink$(if $(OUTBOX_FAULT_POINTS),-fault-points)
sink_objs     = $(patsubst src/%.cpp,$(SINK_OBJ_DIR)/%.o,$(wildcard $(addsuffix /*.cpp,$(1))))
SINK_COMMON   = $(patsubst %.cpp,%.o,$(sort $(wildcard src/base/*.cpp src/sink/*.cpp)))
SINK_KAFKA    = $(call sink_objs,$(SINK_KAFKA_DIRS))
SINK_REDIS    = $(call sink_objs,$(SINK_REDIS_DIRS))
# TLS for Redis where hiredis brings it (1.0 and later, as a library of its own).
HIREDIS_TLS  := $(shell pkg-config --exists hiredis_ssl openssl 2>/dev/null && echo -DOUTBOX_HAVE_HIREDIS_SSL)
KAFKA_LIBS    = rdkafka
REDIS_LIBS    = $(if $(HIREDIS_TLS),hiredis_ssl openssl) hiredis

$(SINK_KAFKA): SINK_CXXFLAGS += $$(pkg-config --cflags $(KAFKA_LIBS))
$(SINK_REDIS): SINK_CXXFLAGS += $(HIREDIS_TLS) $$(pkg-config --cflags $(REDIS_LIBS))
$(SINK_KAFKA) $(SINK_REDIS): $(SINK_OBJ_DIR)/%.o: src/%.cpp
	@$(MKDIR_P) $(@D)
	$(CXX) $(SINK_CXXFLAGS) -c -o $@ $<
-include $(SINK_KAFKA:.o=.d) $(SINK_REDIS:.o=.d)

outbox-sink-kafka: $(SINK_COMMON) $(SINK_KAFKA) $(FAULT_STAMP)
	$(CXX) -pthread -o $@ $(filter %.o,$^) $$(pkg-config --libs $(KAFKA_LIBS))
outbox-sink-redis: $(SINK_COMMON) $(SINK_REDIS) $(FAULT_STAMP)
	$(CXX) -pthread -o $@ $(filter %.o,$^) $$(pkg-config --libs $(REDIS_LIBS))

all: wall outbox-sink-kafka outbox-sink-redis

install: install-sinks
install-sinks: outbox-sink-kafka outbox-sink-redis
	$(MKDIR_P) '$(DESTDIR)$(pkglibdir)'
	$(INSTALL_PROGRAM) outbox-sink-kafka outbox-sink-redis '$(DESTDIR)$(pkglibdir)/'

uninstall: uninstall-sinks
uninstall-sinks:
	rm -f '$(DESTDIR)$(pkglibdir)/outbox-sink-kafka' '$(DESTDIR)$(pkglibdir)/outbox-sink-redis'

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
chaos:
	@MINUTES="$(MINUTES)" SEED="$(SEED)" ROUND="$(ROUND)" KIND="$(KIND)" scripts/chaos
bench:
	@scripts/bench
fuzz:
	@scripts/fuzz $(SECONDS)
valgrind:
	@scripts/test valgrind
lint:
	@scripts/lint
format:
	@scripts/format

.PHONY: wall $(COMMANDS) install-sinks uninstall-sinks
