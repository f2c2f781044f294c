# How the demo talks: headings, what is typed, what comes back, and what was promised [sourced by scripts/quickstart].

if [ -t 1 ]; then BOLD=$'\e[1m' DIM=$'\e[2m' GREEN=$'\e[32m' RED=$'\e[31m' PLAIN=$'\e[0m'; else BOLD='' DIM='' GREEN='' RED='' PLAIN=''; fi

heading() { printf '\n%s%s%s\n' "$BOLD" "$*" "$PLAIN"; }
words() { printf '  %s\n' "$@"; }
psql_quiet() { as_postgres "$(pg_bin)/psql" -X -q -v ON_ERROR_STOP=1 -h "$DIR/postgres" -p "$PORT" -U postgres demo "$@"; }

# typed PROMPT < TEXT: what the user would type, each line behind a prompt.
typed() { sed "s/^/    $DIM$1$PLAIN /"; }
# came_back < TEXT: what the program answered.
came_back() { sed '/^$/d; s/^/    /'; }

# sql STATEMENTS: shows them, runs them in one session, shows the answer.
sql() {
  printf '%s\n' "$1" | typed 'demo=#'
  local answer
  answer=$(psql_quiet -P footer=off -f - <<<"$1" 2>&1) || { printf '%s\n' "$answer"; failed "the statement above"; }
  printf '%s\n' "$answer" | came_back
  ! grep -q WARNING <<<"$answer" || failed "the statement above: it warns"
}

# value QUERY: its single value, unseen.
value() { psql_quiet -A -t -c "$1"; }

# expect WHAT ACTUAL WANTED
expect() {
  if [ "$2" = "$3" ]; then
    printf '  %s✓ %s%s\n' "$GREEN" "$1" "$PLAIN"
  else
    printf '  %s✗ %s: expected "%s", got "%s"%s\n' "$RED" "$1" "$3" "$2" "$PLAIN"
    failed "$1"
  fi
}

failed() {
  say
  say "error: the demo stopped at: $*"
  say "server log: $DIR/postgres/server.log"
  tail -5 "$DIR/postgres/server.log" >&2
  exit 1
}
