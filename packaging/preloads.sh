# Copied from packaging/preloads.sh into the scripts of the packages.
# preloads SERVER DIR: is the server whose postgresql.conf is in DIR told to load outbox? SERVER is its program, and is asked, as DIR's
# owner: includes, quotes and what overrules what are its own affair. Where it cannot tell, a line that may do it counts.
preloads() {
  as=
  [ "$(id -u)" != 0 ] || as="runuser -u $(stat -c %U "$2") --"
  if list=$(cd / && $as "$1" -C shared_preload_libraries -D "$2" 2>/dev/null); then
    echo "$list" | tr -d ' \t"' | tr , '\n' | grep -qxE '(.*/)?outbox(\.so)?'
  else
    grep -qsiE '^[[:space:]]*shared_preload_libraries[^#]*outbox' "$2/postgresql.conf" "$2"/conf.d/*.conf "$2/postgresql.auto.conf"
  fi
}
