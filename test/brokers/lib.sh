# What the scripts of this folder have in common: a cache that is filled once, and one private process in DIR. Source it.
# Nothing is ever signalled that was not started in DIR: its process is the one whose number and time of birth are in DIR/pid
# and DIR/born.

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

say() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; }
die() { say "$1"; exit "${2:-1}"; }

# take_arguments COMMAND [DIR ...]: sets COMMAND and DIR; `prepare` has no DIR. Without any it prints the head of the script.
take_arguments() {
  [ $# -ge 1 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" | head -n -1 >&2; exit 2; }
  COMMAND=$1 DIR=
  [ "$COMMAND" != prepare ] || return 0
  [ $# -ge 2 ] || die "which DIR?" 2
  case $2 in /*) DIR=$2 ;; *) DIR=$PWD/$2 ;; esac
}

free_port() {
  perl -MIO::Socket::INET -e 'print IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1")->sockport'
}

# Sets JAVA.
find_java() {
  JAVA=${JAVA_HOME:+$JAVA_HOME/bin/java}
  [ -n "$JAVA" ] && [ -x "$JAVA" ] || JAVA=$(command -v java) || die "no Java found: install a JRE 17 or newer" 77
}

# --- the cache ---

# use_cache NAME DIRECTORY VERSION: sets CACHE to DIRECTORY; where that is empty, to the one that all users read, which root
# fills, or to this user's. It is filled when there is a MARK in it, for this version.
use_cache() {
  local shared=/var/cache/outbox-$1
  MARK=complete-$3
  case $2 in
    /*) CACHE=$2 ;;
    ?*) CACHE=$PWD/$2 ;;
    *) if [ "$(id -u)" = 0 ] || [ -e "$shared/$MARK" ]; then CACHE=$shared; else CACHE=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/outbox-$1; fi ;;
  esac
}

# alone COMMAND [ARG ...]: while nobody else fills the cache. What is started outlives the lock: start() closes it.
alone() {
  mkdir -p "$CACHE" || die "cannot write $CACHE" 77
  exec 9>"$CACHE/.lock"
  flock 9
  "$@"
  exec 9>&-
}

# fill_cache WHAT SIZE COMMAND [ARG ...]: the command brings it with maven(), and puts it into CACHE. Afterwards everything
# works offline.
fill_cache() {
  [ ! -e "$CACHE/$MARK" ] || return 0
  command -v mvn >/dev/null || die "no $1 in $CACHE and no Maven (mvn) to fetch it" 77
  alone fill_alone "$@"
}

fill_alone() {
  [ ! -e "$CACHE/$MARK" ] || return 0  # another process was faster
  WHAT=$1
  say "fetching $1 ($2, once) into $CACHE"
  FRESH=$(mktemp -d "$CACHE/.fetch.XXXXXX")
  trap 'rm -rf "$FRESH"' EXIT
  shift 2
  "$@" || die "what was fetched is not what it was"
  rm -f "$CACHE"/complete-*
  chmod -R a+rX "$CACHE" && touch "$CACHE/$MARK"
  rm -rf "$FRESH"
  trap - EXIT
}

# maven ARG ...: into FRESH.
maven() {
  mvn -q -B "$@" >"$CACHE/fetch.log" 2>&1 && return
  grep -m3 ERROR "$CACHE/fetch.log" >&2
  die "no Maven repository can be reached and $CACHE holds no $WHAT" 77
}

# fetch_jars POM [ARG ...]: what the POM names, as CACHE/lib.
fetch_jars() {
  maven -f "$HERE/$1" dependency:copy-dependencies -DoutputDirectory="$FRESH/lib" "${@:2}"
  rm -rf "$CACHE/lib"
  mv "$FRESH/lib" "$CACHE/lib"
}

# --- the process ---

# When a process was born, in ticks since the machine was started; fails where there is none.
born() {
  local stat
  read -r stat 2>/dev/null <"/proc/$1/stat" || return 1
  stat=${stat##*) }
  set -- $stat
  [ "$1" != Z ] && echo "${20}"
}

# Sets PID.
running() {
  local birth
  PID=$(cat "$DIR/pid" 2>/dev/null) && [ -n "$PID" ] && birth=$(born "$PID") && [ "$birth" = "$(cat "$DIR/born" 2>/dev/null)" ]
}

# start COMMAND [ARG ...]: in DIR, with what it says in server.log. Sets PID: setsid becomes the command, as it need not fork.
start() {
  cd "$DIR" || exit 1
  setsid "$@" >>server.log 2>&1 </dev/null 9>&- &
  PID=$!
  echo "$PID" >pid
  born "$PID" >born
}

# end_process SIGNAL: also one that is paused; by SIGKILL after 50 seconds.
end_process() {
  local tries
  running || { rm -f "$DIR/pid"; return 0; }
  kill "-$1" "$PID" 2>/dev/null
  kill -CONT "$PID" 2>/dev/null
  for ((tries = 0; tries < 1200; tries++)); do
    running || break
    [ $tries != 1000 ] || kill -KILL "$PID" 2>/dev/null
    sleep 0.05
  done
  rm -f "$DIR/pid"
}

# The verbs that mean the same everywhere.
verb() {
  case $COMMAND in
    stop) end_process TERM ;;
    kill) end_process KILL ;;
    pause) running && kill -STOP "$PID" || die "not running in $DIR" ;;
    cont) running && kill -CONT "$PID" || die "not running in $DIR" ;;
    *) die "unknown command: $COMMAND" 2 ;;
  esac
}
