# Shared by the scripts that build and run with sanitizers. Source it from the top of the checkout.

# clang 14, which scripts/install-deps brings: half g++'s compile time, and it has libFuzzer. False, and the C++ compiler
# as it was, where there is none.
use_clang() {
  local clang
  clang=$(command -v clang++-14 || command -v clang++) || return 1
  export CXX="$clang"
}

# The server module and the sinks under AddressSanitizer, in the build directory of the unit tests.
build_server_module() (
  dir=build/unit-address-undefined
  use_clang && mkdir -p $dir && cmake -S . -B $dir -DSANITIZE=address,undefined &&
    cmake --build $dir -j 2 --target outbox_module -- --no-print-directory
)

# fresh_reports DIR: every report of a process started from here on goes into a file there. Sanitizers write their own
# files, so a report is seen whoever's child the process was and whatever was made of its exit.
fresh_reports() {
  local common="log_path=$1/report:halt_on_error=1:print_stacktrace=1:strip_path_prefix=$PWD/" supp=$PWD/test/sanitizers
  rm -rf "$1"
  mkdir -p "$1"
  export ASAN_OPTIONS="$common:detect_stack_use_after_return=1:strict_string_checks=1:check_initialization_order=1"
  export UBSAN_OPTIONS="$common"
  export LSAN_OPTIONS="suppressions=$supp/leaks.supp:print_suppressions=0"
  export TSAN_OPTIONS="$common:suppressions=$supp/threads.supp:print_suppressions=0:second_deadlock_stack=1"
}

# show_reports DIR: false when there are any; the first ones go to stderr.
show_reports() {
  local file shown=0
  for file in "$1"/report.*; do
    [ -s "$file" ] || continue
    [ $shown -lt 3 ] && { echo "--- $file" && head -40 "$file"; } >&2
    shown=$((shown + 1))
  done
  [ $shown = 0 ]
}
