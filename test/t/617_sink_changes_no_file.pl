# matrix: F8
# A sink process that an attacker has taken over cannot take the server's files away from it by their names: mode, owner, times, attributes
# and length of a file that it may not open stay as they are. Landlock asks about none of these, and about the length only from Linux 6.2 on,
# so it is not landlock that refuses them. Neither are those of a file changed that it may read (a certificate, what is in /etc).
use strict;
use warnings;

use File::Temp ();
use Outbox::Faults;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node();
my $results = "$ENV{OUTBOX_FAULT_DIR}/escape.result";
foreach my $round ('as it is', 'without landlock')
{
	Outbox::Faults::put('sink.without_landlock', 1) if $round eq 'without landlock';
	my $dir = File::Temp::tempdir('outbox-escape.XXXXXX', TMPDIR => 1, CLEANUP => 1);
	append_to_file("$dir/file", 'of the server');
	my $state = sub { my @stat = stat "$dir/file"; return @stat ? sprintf('mode %o, %d bytes, of %s', $stat[2], @stat[ 7, 9 ]) : 'gone' };
	my $before = $state->();
	# A process that is not there: this is about the file.
	Outbox::Faults::put('escape', "$dir/file\nprocess 999999999");
	unlink $results;
	(my $name = $round) =~ s/ /_/g;
	$node->safe_psql('postgres', "CREATE SERVER $name FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('$name', server => '$name')");
	emit_counted($node, $name, ['k'], 1, 3);
	ok(wait_idle($node), "$round: events go out");
	my ($have, $did) = (-e $results ? slurp_file($results) : '') =~ /^([^:]*):.* file: (.*) itself:/ or fail('... and the process tried'), next;
	diag("$round: $have");
  SKIP:
	{
		skip "this kernel has no seccomp for a sink process ($have)", 2 if $have !~ /seccomp/;
		like($did, qr/^(?:\w+ refused ?){18}$/, '... each change of a file is refused');
		is($state->(), $before, '... and it is as it was');
	}
}
no_server_crashed($node);
done_testing();
