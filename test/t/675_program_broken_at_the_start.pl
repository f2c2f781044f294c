# A sink's program that was broken when the server started (a package half installed, a right or a library that was missing) and is
# mended by a new file, as a package manager does it: destinations and sessions use that, without a restart.
# matrix: R26
use strict;
use warnings;

use File::Copy qw(copy);
use File::Find;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $staged = stage_with('outbox--0.1.sql');
plan skip_all => 'the extension is installed for the whole system' if $staged eq '';
my $node = new_node(conf => $staged);
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'broken', topic => q('t'));
sub sql { return $node->safe_psql('postgres', $_[0]) }
my ($dir) = $staged =~ m{^(?:extension_destdir|extension_control_path)\s*=\s*'([^':]+/stage)}m;
my $program;
find(sub { $program = $File::Find::name if $_ eq 'outbox-sink-redis' }, $dir);
ok(defined $program, 'a program of its own') or BAIL_OUT($staged);
my $good = PostgreSQL::Test::Utils::tempdir() . '/good';
copy($program, $good) or die $!;
# As a package manager does: a new file takes the name.
sub put
{
	my ($mode, $text) = @_;
	if (defined $text) { append_to_file("$program.new", $text) }
	else { copy($good, "$program.new") or die $! }
	chmod $mode, "$program.new" or die $!;
	rename "$program.new", $program or die $!;
	return;
}
sub tried { return sql(q(SELECT coalesce(string_agg(error_code, ' ' ORDER BY error_code), 'well') FROM outbox.test_server('broken', 't', '30 s') WHERE NOT ok)) }

foreach my $case ([ 'not executable', 'SINK_START', 0644 ], [ 'an empty file', 'SINK_START', 0755, '' ], [ 'one without its library', 'SINK_DIED', 0755, "#!/bin/sh\nexit 127\n" ])
{
	my ($what, $code, $mode, $text) = @$case;
	put($mode, $text);
	$node->restart;
	sql(q(SELECT outbox.emit('t', 'k', 'e', '1')));
	ok(wait_for_value($node, 'SELECT error_code FROM outbox.destination', $code, 60), "$what: a destination is in trouble");
	is(tried(), $code, 'and a session is told so');
	like(sql(q(SELECT hint FROM outbox.test_server('broken', 't', '30 s') WHERE NOT ok)), qr/replaced since the server was started, restart it/, 'with what to do');
	# Something else that does not work either.
	put(0755, "#!/bin/sh\nexit 1\n");
	is(tried(), 'SINK_DIED', 'what is in its place is tried');
	put(0755);
	ok(wait_idle($node, 60), "$what, and mended: the event is delivered") or diag(sql('SELECT error_code, error_message FROM outbox.destination'));
	is(tried(), 'well', 'and a session finds nothing wrong');
	$node->psql('postgres', q(SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type LIKE 'outbox%'));
	sql(q(SELECT outbox.emit('t', 'k', 'e', '2')));
	ok(wait_idle($node, 60), 'as is the next one, by new workers');
}
is($redis->xlen('t'), 6, 'each once');
no_server_crashed($node);
$node->stop;
done_testing();
