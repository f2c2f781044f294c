# The packages of a clone have a version that apt takes for a newer one after each commit, the same day too, and for an older one than
# the next release; a commit that has a tag, and an archive, has that of the changelog.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

foreach my $tool (qw(dpkg git)) { plan skip_all => "no $tool here" if system("$tool --version >/dev/null 2>&1") != 0 }
my $tree = PostgreSQL::Test::Utils::tempdir() . '/clone';
system(qq{mkdir -p '$tree/scripts' '$tree/debian' && cp '$ENV{OUTBOX_TOP}/scripts/lib.sh' '$tree/scripts'}) == 0 or die 'cp';
append_to_file("$tree/debian/changelog", "outbox (0.2-1) unstable; urgency=medium\n\n  * New.\n");

sub version { return `cd '$tree' && bash -c '. scripts/lib.sh; package_version'` =~ s/\n//r }
sub git { my ($args) = @_; system("cd '$tree' && git -c user.name=x -c user.email=x\@example.org $args >/dev/null 2>&1") == 0 or die "git $args"; return }
sub commit { my ($when) = @_; local $ENV{GIT_COMMITTER_DATE} = $when; git('commit --allow-empty -m x'); return version() }
sub older { my ($one, $other) = @_; return ok(system('dpkg', '--compare-versions', $one, 'lt', $other) == 0, "'$one' is older than '$other'") }

is(version(), '0.2-1', 'an archive: as the changelog says');
git('init');
git('add -A');
my @commits = map { commit($_) } '2026-11-28T23:59:58+02:00', '2026-11-28T22:00:01+00:00', '2026-11-29T00:00:00+00:00';
like($commits[0], qr/^0\.2-1\+git20261128215958\+g[0-9a-f]{7,}$/, 'a clone: when, and which commit');
my @order = ('0.2-1', @commits, '0.2-2', '0.3-1');
older(@order[$_, $_ + 1]) foreach 0 .. $#order - 1;
git('tag v0.2');
is(version(), '0.2-1', 'a tag: as the changelog says');
done_testing();
