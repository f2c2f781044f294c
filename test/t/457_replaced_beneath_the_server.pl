# The files of outbox are replaced, or removed, under a server that runs (an upgrade of the package): it goes on with those it
# has loaded, its sinks among them, also those that it starts anew; after a restart it takes what is there. A program of another
# version says so.
# matrix: R26 R12
use strict;
use warnings;

use File::Find;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $staged = stage_with('outbox--0.1.sql');
plan skip_all => 'the extension is installed for the whole system' if $staged eq '';
my $node = new_node(conf => $staged);
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'replaced', topic => q('t'));
sub sql { return $node->safe_psql('postgres', $_[0]) }
my ($dir) = $staged =~ m{^(?:extension_destdir|extension_control_path)\s*=\s*'([^':]+/stage)}m;
my $program;
find(sub { $program = $File::Find::name if $_ eq 'outbox-sink-redis' }, $dir);
ok(defined $program, 'a program of its own') or BAIL_OUT($staged);
sub names { return join ' ', sort map { my $name = slurp_file("/proc/$_/comm"); chomp $name; $name } sink_pids($node) }
my $sent = 0;
sub delivered
{
	my ($how) = @_;
	sql(qq(SELECT outbox.emit('t', 'k', 'e', '@{[ ++$sent ]}')));
	ok(wait_idle($node, 60), "$how: an event is delivered") or diag(sql('SELECT * FROM outbox.lag'));
	return;
}
delivered('at first');
my $names = names();
is($names, 'outbox-sink-red', 'lists of processes have its name');

# What another version would be: it does not speak with this library.
my $other = "#!/bin/sh\necho of another version >&2\nexit 2\n";
foreach my $how ('replaced', 'removed')
{
	# As a package manager does: what is read or run already stays what it was.
	if ($how eq 'removed') { unlink $program or die $! }
	else { append_to_file("$program.new", $other); chmod 0755, "$program.new" or die $!; rename "$program.new", $program or die $! }
	delivered("$how, the sink that runs");
	kill 'KILL', sink_pids($node);
	delivered("$how, one that is started anew");
	is(names(), $names, 'with its name');
	sql(q(ALTER SERVER replaced OPTIONS (SET host 'localhost')));
	sql(q(ALTER SERVER replaced OPTIONS (SET host '127.0.0.1')));
	delivered("$how, of an altered server");
	$node->psql('postgres', q(SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type LIKE 'outbox%'));
	delivered("$how, of new workers");
	is(sql(q(SELECT count(*) FROM outbox.test_server('replaced', 't', '30 s') WHERE error_code LIKE 'SINK%')), 0, "$how, a session's own");
}
unlike(slurp_file($node->logfile), qr/of another version/, 'the other one was not started');

# A restart takes what is there.
append_to_file("$program.new", $other);
chmod 0755, "$program.new" or die $!;
rename "$program.new", $program or die $!;
$node->restart;
sql(q(SELECT outbox.emit('t', 'k', 'e', '0')));
ok(wait_until(sub { slurp_file($node->logfile) =~ /of another version/ }, 60), 'a restart takes what is there');
no_server_crashed($node);
$node->stop;
done_testing();
