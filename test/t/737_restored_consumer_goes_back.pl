# A consumer's database is restored from a dump that was made while the consumer was behind: from the time of the dump on, by the group's place or by
# replay(), what was emitted before and handled behind it is passed over; from as much before as it was behind, or more, each event has its effect, once.
# matrix: R95
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $redis = Outbox::Redis->start;
my $node = new_node(conf => "outbox.lone_emit = allow\n");
redis_route($node, $redis, 'redis', topic => q('events'));
my $dump = $node->basedir . '/consumer.dump';
$node->safe_psql('postgres', 'CREATE DATABASE consumer');
$node->safe_psql('consumer', q{SET client_min_messages = error; CREATE EXTENSION outbox; CREATE TABLE effect (n int);
	CREATE FUNCTION handle(id uuid, n int) RETURNS void LANGUAGE plpgsql AS $$ BEGIN IF outbox.receive('billing', id) THEN INSERT INTO public.effect VALUES (n); END IF; END $$});
sub emit { $node->safe_psql('postgres', "SELECT outbox.emit('t', $_, 'e', '$_')") foreach @_; ok(wait_idle($node), "sent: @_") }
$redis->command('XGROUP', 'CREATE', 'events', 'billing', '0', 'MKSTREAM');

# Handles up to so many entries, and what its database has had an effect of then.
sub effects { return $node->safe_psql($_[0], q{SELECT string_agg(n::text, ' ' ORDER BY n) FROM effect}) }
sub handle
{
	my ($database, $most) = @_;
	my $answer = $redis->command('XREADGROUP', 'GROUP', 'billing', 'one', 'COUNT', $most, 'STREAMS', 'events', '>');
	foreach my $entry (map { @{ $_->[1] } } @{ $answer // [] })
	{
		my %fields = @{ $entry->[1] };
		$node->safe_psql($database, "SELECT handle('$fields{id}', $fields{payload})");
		$redis->command('XACK', 'events', 'billing', $entry->[0]);
	}
	return effects($database);
}

emit(1, 2, 3);
is(handle('consumer', 1), '1', 'the consumer is behind by two events');
my $dumped_at = $node->safe_psql('postgres', 'SELECT clock_timestamp()');
my ($seconds, $micros) = @{ $redis->command('TIME') };
my $place = sprintf('%d%03d-0', $seconds, $micros / 1000);
$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, 'consumer' ], 'dumped');
emit(4);
is(handle('consumer', 10), '1 2 3 4', 'it has handled them all, since');
foreach my $database ('by place', 'by replay')
{
	$node->safe_psql('postgres', qq{CREATE DATABASE "$database"});
	$node->command_ok([ 'pg_restore', '-d', $database, $dump ], "restored: $database");
}

$redis->command('XGROUP', 'SETID', 'events', 'billing', $place);
is(handle('by place', 10), '1 4', 'from the place that the stream had at the dump: two events are lost');
$redis->command('XGROUP', 'SETID', 'events', 'billing', '0');
is(handle('by place', 10), '1 2 3 4', 'from further back: each has its effect, once');

sub replay { $node->safe_psql('postgres', "CALL outbox.replay(since => timestamptz '$dumped_at' - interval '$_[0]', route => 'redis', dry_run => false, reason => 'restored')"); ok(wait_idle($node), 'sent again') }
replay('0');
is(handle('by replay', 10), '1 4', 'replay() from the time of the dump: the same');
replay('1 hour');
is(handle('by replay', 10), '1 2 3 4', 'and from further back');
done_testing();
