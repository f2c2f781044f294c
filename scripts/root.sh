# Shared by scripts/test-on and scripts/test-fresh: other Debian releases, unpacked and entered. Source it after lib.sh.
# Mounts and processes are in namespaces of their own: nothing of either is left, however a run ends.

OWN_NAMESPACES=(unshare --mount --pid --fork --kill-child)

# This machine's own.
mirror() {
  apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null | sed -n 's/^Debian //p' | head -1
}

# own_sources SUITE: lines of sources.list for what this machine has of that release, with its updates and security.
own_sources() {
  apt-get indextargets --format '$(ORIGIN) deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 2>/dev/null |
    sed -nE "s/^Debian (deb [^ ]+ $1(-updates|-security)? .*)/\\1/p" | sort -u
}

# Why no release can be unpacked here; nothing where one can. Installs debootstrap.
no_roots_because() {
  if [ "$(id -u)" != 0 ]; then
    echo "a release is unpacked and entered as root"
  elif ! "${OWN_NAMESPACES[@]}" true 2>/dev/null; then
    echo "this machine lets nobody mount anything, not even in a namespace of its own"
  elif ! "$TOP/scripts/install-deps" fresh >&2 </dev/null; then
    echo "debootstrap is not installed and cannot be"
  elif [ -z "$(mirror)" ]; then
    echo "apt names no Debian mirror here"
  fi
}

# make_root SUITE DIR [PACKAGE ...]: the release's minimum and these, from this machine's mirror. What was done is in
# DIR.log; false when that failed.
make_root() {
  local suite=$1 dir=$2 from
  shift 2
  from=$(mirror)
  "${OWN_NAMESPACES[@]}" debootstrap --variant=minbase ${1:+--include="$(IFS=,; echo "$*")"} "$suite" "$dir" "$from" >"$dir.log" 2>&1 || return 1
  # As Debian's installer leaves it. And the same release as here has the same packages, whose headers share_ccache needs.
  if from=$(own_sources "$suite") && [ -n "$from" ]; then printf '%s\n' "$from" >"$dir/etc/apt/sources.list"; fi
  # A mirror may be weeks behind. What is unpacked here need not survive a power failure.
  printf '%s\n' 'Acquire::Check-Valid-Until "false";' "$(apt-config dump | grep -iE '^Acquire::.*Proxy')" >"$dir/etc/apt/apt.conf.d/outbox"
  echo force-unsafe-io >"$dir/etc/dpkg/dpkg.cfg.d/outbox"
  trust_as_here "$dir"
  if [ -e ~/.m2/settings.xml ]; then mkdir -p "$dir/root/.m2" && cp ~/.m2/settings.xml "$dir/root/.m2/"; fi
}

# Whom this machine trusts besides Debian's list is trusted in DIR too, once that installs ca-certificates: behind a proxy
# with a certificate of its own Maven finds nothing else.
trust_as_here() {
  mkdir -p "$1/usr/local/share/ca-certificates"
  perl -0777 -e '
    my ($to, @files) = @ARGV; my (%known, $n);
    sub certificates { open my $file, "<", shift or return (); return <$file> =~ /(-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----)/gs }
    sub plain { return $_[0] =~ s/\s//gr }
    $known{ plain($_) } = 1 foreach map { certificates($_) } @files;
    foreach (certificates("/etc/ssl/certs/ca-certificates.crt")) {
      next if $known{ plain($_) }++;
      open my $file, ">", sprintf("%s/here-%d.crt", $to, ++$n) or die; print $file "$_\n"; close $file or die;
    }' "$1/usr/local/share/ca-certificates" $(find /usr/share/ca-certificates -name '*.crt' 2>/dev/null)
  [ ! -x "$1/usr/sbin/update-ca-certificates" ] || "${OWN_NAMESPACES[@]}" chroot "$1" update-ca-certificates >>"$1.log" 2>&1
}

release_of() { sed -n 's/^VERSION_CODENAME=//p' "$1/etc/os-release"; }

# share_ccache DIR: what is compiled below DIR is looked for in this machine's compiler cache, and nothing is put there. A compiler, and
# headers, that are not installed there are none with it, too. Nothing, where the release is another: its libraries are.
share_ccache() {
  local name
  [ -n "${CCACHE_DIR:-}" ] && [ -x /usr/bin/ccache ] && [ "$(release_of '')" = "$(release_of "$1")" ] || return 0
  cp /usr/bin/ccache "$1/usr/bin/" && mkdir -p "$1/usr/lib/ccache" "$CCACHE_DIR" || return 0
  for name in g++ clang++-14 clang++; do ln -sf ../../bin/ccache "$1/usr/lib/ccache/$name"; done
  ROOT_BINDS+=" $CCACHE_DIR"
  ROOT_ENV+=("CCACHE_DIR=$CCACHE_DIR" CCACHE_READONLY=1 "CCACHE_IGNOREOPTIONS=${CCACHE_IGNOREOPTIONS:-}" "CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-}")
}
ROOT_ENV=()

# exec_in_root DIR COMMAND ...: becomes the command, as root there, with an environment of ROOT_ENV alone. Directories in
# ROOT_BINDS are those of this machine.
exec_in_root() {
  local name vars=("${ROOT_ENV[@]}")
  for name in http_proxy https_proxy no_proxy; do [ -z "${!name:-}" ] || vars+=("$name=${!name}"); done
  cp /etc/resolv.conf "$1/etc/" 2>/dev/null || true
  exec "${OWN_NAMESPACES[@]}" bash -c '
    root=$1
    shift
    mount --bind "$root" "$root" || exit 1 # a mount of its own, as that of a machine: or nothing inside could mount
    mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev" && mount -t tmpfs shm "$root/dev/shm" || exit 1
    mount -t sysfs sys "$root/sys" 2>/dev/null
    for dir in $ROOT_BINDS; do mkdir -p "$root$dir" && mount --bind "$dir" "$root$dir" || exit 1; done
    exec env -i TERM="${TERM:-dumb}" HOME=/root PATH=/usr/lib/ccache:/usr/sbin:/usr/bin:/sbin:/bin "${@:2:$1}" chroot "$root" "${@:$1+2}"
  ' root "$1" "${#vars[@]}" "${vars[@]}" "${@:2}"
}
ROOT_BINDS=
export ROOT_BINDS
