# Shared by the scripts: staging the build, private servers, and running things as the user that Postgres accepts.
# Source it; it changes into the top of the checkout. Nothing here touches a server it did not start.

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
TOP=$PWD
PG_CONFIG=${PG_CONFIG:-pg_config}
STAGE=$TOP/build/stage

# What root makes here the user postgres reads.
umask 022
# Where a compiler cache is in use: the same files in another checkout, or in a copy, are the same.
[ -z "${CCACHE_DIR:-}" ] || export CCACHE_BASEDIR=$TOP CCACHE_NOHASHDIR=1

say() { printf '%s\n' "$*" >&2; }
die() { say "error: $*"; exit 1; }

pg_bin() { "$PG_CONFIG" --bindir; }

# The server refuses to run as root. root's compiler cache is not written to by others.
as_postgres() {
  if [ "$(id -u)" = 0 ]; then
    setpriv --reuid=postgres --regid=postgres --init-groups -- env HOME=/tmp LC_ALL=C.UTF-8 CCACHE_DISABLE=1 "$@"
  else
    "$@"
  fi
}

exec_as_postgres() {
  [ "$(id -u)" = 0 ] && set -- setpriv --reuid=postgres --regid=postgres --init-groups -- env HOME=/tmp LC_ALL=C.UTF-8 CCACHE_DISABLE=1 "$@"
  exec "$@"
}

# One for each folder of src/sink that has a main.cpp.
sink_programs() { printf '%s\n' src/sink/*/main.cpp | sed 's,src/sink/\(.*\)/main.cpp,outbox-sink-\1,'; }

# compiles_by COMPILER LOG: whether clang has nothing to say about what g++ builds, in a copy of the checkout. The server's flags are
# those for the compiler that it was built with.
NOT_ITS_FLAGS="-Wno-unused-command-line-argument -Wno-unknown-warning-option -Wno-ignored-attributes"
compiles_by() (
  tree=$TOP/build/other-compiler
  trap 'rm -rf "$tree"' EXIT
  copy_checkout "$tree"
  make -C "$tree" -k -j2 objects WERROR=-Werror CXX="$1 -fsyntax-only $NOT_ITS_FLAGS" PG_CONFIG="$PG_CONFIG" >"$2" 2>&1 ||
    { grep -E '(^|[^-])error:' "$2" | head -20; exit 1; }
)

# Builds and installs into build/stage: nothing outside the checkout changes. `stage_install OUTBOX_FAULT_POINTS=1`
# builds in the fault points (src/base/fault_point.h); without that a build that holds any is refused. What only an older
# checkout installed goes: a server would find the script of a version that is no more.
stage_install() {
  local log=$TOP/build/make.log began=$TOP/build/make.began file found
  command -v "$PG_CONFIG" >/dev/null || die "there is no $PG_CONFIG here"
  mkdir -p "$TOP/build"
  touch "$began"
  if ! make -j"$(nproc)" PG_CONFIG="$PG_CONFIG" DEBUG_INFO=-g1 "$@" >"$log" 2>&1 ||
     ! make install PG_CONFIG="$PG_CONFIG" DESTDIR="$STAGE" "$@" >>"$log" 2>&1; then
    grep -E ' error:|Error [0-9]|wall:' "$log" | head -20 >&2
    die "the build failed, see build/make.log"
  fi
  find "$STAGE" -type f ! -newer "$began" -delete
  for file in outbox.so $(sink_programs); do
    grep -q OUTBOX_FAULT_DIR "$STAGE$("$PG_CONFIG" --pkglibdir)/$file" && found=1 || found=
    [ "${1:-}" = OUTBOX_FAULT_POINTS=1 ] && [ -z "$found" ] && die "the test build of $file has no fault points"
    [ "${1:-}" != OUTBOX_FAULT_POINTS=1 ] && [ -n "$found" ] && die "$file holds fault points, in a build without"
  done
  [ -z "$(loads_by)" ] || return 0
  [ -n "${OUTBOX_INSTALL:-}" ] ||
    die "this server cannot load what is not installed into it: OUTBOX_INSTALL=1 does that, in a server made for it"
  make install PG_CONFIG="$PG_CONFIG" "$@" >>"$log" 2>&1 &&
    install -m 644 test/upgrade/*.sql "$("$PG_CONFIG" --sharedir)/extension/" || die "could not install, see build/make.log"
}

# How the server can be made to load what is not installed into it: `path` from 18 on, `destdir` in Debian's packages
# before, else not at all.
loads_by() {
  if [ "$("$PG_CONFIG" --version | grep -oE '[0-9]+' | head -1)" -ge 18 ]; then
    echo path
  elif "$(pg_bin)/postgres" --describe-config 2>/dev/null | grep -q '^extension_destdir'; then
    echo destdir
  fi
}

# Lines for postgresql.conf that make a server load the staged build.
stage_conf() {
  local libdir
  libdir=$("$PG_CONFIG" --pkglibdir)
  printf "shared_preload_libraries = 'outbox'\n"
  case $(loads_by) in
    path) printf "extension_control_path = '%s\$system'\n" "$STAGE$("$PG_CONFIG" --sharedir):" ;;
    destdir) printf "extension_destdir = '%s'\n" "$STAGE" ;;
    *) return ;; # installed: stage_install
  esac
  printf "dynamic_library_path = '%s:%s'\n" "$STAGE$libdir" "$libdir"
}

# start_server DIR PORT [extra conf line ...]: a fresh private cluster on a socket in DIR and 127.0.0.1:PORT. The array
# SERVER_ENV holds variables for the server alone; SERVER_PROGRAM is run instead of the server's own.
SERVER_ENV=()
SERVER_PROGRAM=
start_server() {
  local dir=$1 port=$2 line
  shift 2
  mkdir -p "$dir"
  [ "$(id -u)" = 0 ] && chown postgres "$dir"
  as_postgres "$(pg_bin)/initdb" -D "$dir/data" -U postgres -A trust --no-sync -E UTF8 --locale=C.UTF-8 >"$dir/initdb.log" 2>&1 ||
    { cat "$dir/initdb.log" >&2; die "initdb failed"; }
  {
    stage_conf
    printf "listen_addresses = '127.0.0.1'\nport = %s\nunix_socket_directories = '%s'\n" "$port" "$dir"
    printf "max_prepared_transactions = 20\nlog_min_messages = info\n"
    for line in "$@"; do printf '%s\n' "$line"; done
  } >>"$dir/data/postgresql.conf"
  as_postgres env "${SERVER_ENV[@]}" "$(pg_bin)/pg_ctl" -D "$dir/data" -l "$dir/server.log" -t 120 \
    ${SERVER_PROGRAM:+-p "$SERVER_PROGRAM"} -w start >/dev/null ||
    { tail -20 "$dir/server.log" >&2; die "the server did not start"; }
}

stop_server() {
  local dir=$1 mode=${2:-fast}
  [ -f "$dir/data/postmaster.pid" ] || return 0
  as_postgres "$(pg_bin)/pg_ctl" -D "$dir/data" -w -m "$mode" stop >/dev/null 2>&1
}

# counting_server DIR: makes DIR/postgres, a server of which valgrind counts each process; with `need valgrind`.
counting_server() {
  mkdir -p "$1"
  [ "$(id -u)" = 0 ] && chown postgres "$1"
  printf '#!/bin/sh\nexec valgrind --quiet --tool=callgrind --trace-children=yes --callgrind-out-file=%s/%%p %s/postgres "$@"\n' "$1" "$(pg_bin)" >"$1/postgres"
  chmod 755 "$1/postgres"
}
# instructions DIR PID: of a process of it that ends, when it has ended.
instructions() {
  local n
  until n=$(awk '/^totals:/ { print $2 }' "$1/$2" 2>/dev/null) && [ -n "$n" ]; do sleep 0.1; done
  rm -f "$1/$2"
  echo "$n"
}

# A TCP port that nobody listens on now.
free_port() {
  perl -MIO::Socket::INET -e 'print IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1")->sockport, "\n"'
}

# need GROUP ...: the packages of these groups (scripts/install-deps) are there when this returns, or the script ends. Before
# ensure_readable: the user postgres comes with them.
need() { "$TOP/scripts/install-deps" "$@" </dev/null || exit 1; }

# What git knows here and what is new; without git, or where it does not trust the checkout, all but what was built.
checkout_files() {
  local file
  if git ls-files >/dev/null 2>&1; then
    git ls-files -co --exclude-standard | while read -r file; do [ ! -e "$file" ] || printf '%s\n' "$file"; done
  else
    find . -path ./.git -prune -o -path ./build -prune -o ! -name '*.[od]' ! -name '*.so' -type f -printf '%P\n'
  fi | LC_ALL=C sort
}

# copy_checkout DIR: everybody may read it there. What differs gets the time of the copy, so that make sees it; what is
# gone goes, what was built stays.
copy_checkout() {
  local to=$1 known=$1/build/checkout.files file
  mkdir -p "$to/build" && checkout_files >"$known.new" || die "could not copy the checkout to $to"
  while read -r file; do
    { [ -e "$to/$file" ] && cmp -s "$file" "$to/$file"; } || printf '%s\n' "$file"
  done <"$known.new" >"$known.changed"
  tar -cf - --no-recursion --verbatim-files-from -T "$known.changed" | tar -xmf - -C "$to" --no-same-owner && [ "${PIPESTATUS[0]}" = 0 ] ||
    die "could not copy the checkout to $to"
  [ ! -e "$known" ] || LC_ALL=C comm -23 "$known" "$known.new" | (cd "$to" && xargs -r -d '\n' rm -f)
  mv "$known.new" "$known"
  (cd "$to" && chmod a+rx . && xargs -r -d '\n' chmod a+rX) <"$known"
}

# What the Debian packages of this checkout are called: by the changelog where HEAD has a tag or there is no git; else as a later build of
# it, so that apt installs what came since. (No "." and no "+b": lintian takes these for somebody else's upload.)
package_version() {
  local version later=
  version=$(sed -n '1s/^[^(]*(\([^)]*\)).*/\1/p' debian/changelog)
  [ ! -e .git ] || git describe --tags --exact-match >/dev/null 2>&1 ||
    later=$(TZ=UTC git log -1 --date=format-local:%Y%m%d%H%M%S --abbrev=7 --format='+git%cd+g%h')
  printf '%s\n' "$version$later"
}

# What postgres cannot read it cannot test: a checkout below /root is copied to /tmp, and the script runs there instead.
# Once: where the copy is no better there is something wrong that another copy does not mend.
ensure_readable() {
  [ "$(id -u)" = 0 ] || return 0
  id postgres >/dev/null 2>&1 ||
    die "there is no user postgres to run a server as: make one (useradd postgres), or do not run this as root"
  ! as_postgres test -r "$TOP/Makefile" || return 0
  [ -z "${OUTBOX_COPY_OF:-}" ] ||
    die "user postgres cannot read $TOP, a copy of $OUTBOX_COPY_OF: move the checkout to where that user can read it"
  local copy
  copy=${OUTBOX_COPIES:-/tmp}/outbox-checkout-$(printf %s "$TOP" | cksum | cut -d' ' -f1)
  { [ ! -e "$copy" ] && [ ! -L "$copy" ]; } || { [ ! -L "$copy" ] && [ -O "$copy" ]; } ||
    die "user postgres cannot read $TOP, and $copy, where the copy should be, is somebody else's"
  say "user postgres cannot read $TOP; working on a copy in $copy"
  copy_checkout "$copy"
  OUTBOX_COPY_OF=$TOP exec "$copy/scripts/$(basename "$0")" "$@"
}
