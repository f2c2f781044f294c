# Events in days that the clock of events has not come to yet, or is past: of a dump that is adopted where the clock is behind, of
# one that is adopted in batches while a worker reads, and those that were emitted before reset_clock(). Each is
# delivered, once, in order, and a route that begins at the earliest gets all of them.
# matrix: B13 C16 C17 C20 R4
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $day = 86_400 * 1_000_000;
my $redis = Outbox::Redis->start;
my $node = new_node(conf => "max_worker_processes = 24\noutbox.workers = 1\n");
sub sql { my ($query, $database) = @_; return $node->safe_psql($database // 'postgres', $query) }
sub idle { my ($database, $what) = @_; return is(sql(q{SELECT outbox.wait_until_idle('60 s')}, $database), 't', $what) }

# What has come under each key, in order, runs as FROM-TO.
sub came
{
	my ($stream) = @_;
	my $keys = by_key($redis->column($stream, 'payload'));
	foreach my $numbers (values %$keys)
	{
		my @runs;
		foreach my $n (split / /, $numbers)
		{
			if (@runs && $runs[-1][1] == $n - 1) { $runs[-1][1] = $n }
			else { push @runs, [ $n, $n ] }
		}
		$numbers = join ' ', map { "$_->[0]-$_->[1]" } @runs;
	}
	return $keys;
}

# Emits 'KEY N' in the database, all under one type, in one transaction.
sub more
{
	my ($database, $key, $from, $to) = @_;
	return sql("SET client_min_messages = error; SELECT count(outbox.emit_text('$key', '$key', 'x', '$key ' || n)) FROM generate_series($from, $to) n", $database);
}

# --- a dump, and a server that is two days behind it ------------------------------------------------------------------
redis_route($node, $redis, 'one', topic => q('one'), aggregate_types => q('{a}'), lanes => 2);
sql(q{SELECT outbox.create_route('two', server => 'one', topic => 'two', aggregate_types => '{b}')});
more('postgres', $_, 1, 5) foreach qw(a b);
idle('postgres', 'the original has delivered something');
sql("SELECT outbox.pause('$_', reason => 'to have a backlog')") foreach qw(one two);
# The first batches of an adoption hold events of one route alone, the last ones of the other alone.
more('postgres', 'a', 6, 3000);
more('postgres', 'b', 6, 3000);
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump';
$node->command_ok([ 'pg_dump', '-f', $dump, '-d', $node->connstr('postgres') ], 'it is dumped with a backlog');
sql('ALTER DATABASE postgres RENAME TO original', 'template1');
sql('CREATE DATABASE postgres', 'template1');

sub restore
{
	my ($database) = @_;
	sql("CREATE DATABASE $database");
	$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, '-d', $node->connstr($database) ], "restored into $database");
	sql("SELECT outbox.resume('$_')", $database) foreach qw(one two);
	return;
}

Outbox::Faults::shift_clock(-2 * $day);
$node->restart;
restore('behind');
more('behind', $_, 3001, 3003) foreach qw(a b);
is(sql('SELECT outbox.adopt()', 'behind'), 2 * 2995, 'adopted where the clock is two days behind');
idle('behind', 'all is delivered');
is_deeply([ came('one')->{a}, came('two')->{b} ], [ '1-3003', '1-3003' ], 'nothing is lost, repeated or out of order');
is(sql(q{SELECT count(*) FROM outbox_internal.log WHERE created_at > statement_timestamp() - interval '1 day' AND xid < '503'}, 'behind'), 6000, 'the days are those of the dump');
sql(q{SELECT outbox.create_route('all', server => 'one', topic => 'all', start => 'earliest')}, 'behind');
idle('behind', 'a route that begins at the earliest');
is($redis->xlen('all'), 2 * 3003, 'gets them as well');
sql('DROP DATABASE behind', 'template1');

# --- a day that is over, and expired, and is being filled -------------------------------------------------------------
Outbox::Faults::shift_clock(30 * $day);
$node->restart;
$redis->command('DEL', qw(one two all));
restore('ahead');
sql(q{SELECT outbox.create_route('here', server => 'one', topic => 'here', aggregate_types => '{c}')}, 'ahead');
Outbox::Faults::put('adopt.at_once', 1000);
Outbox::Faults::put('adopt.rows', 1000);
Outbox::Faults::arm('adopt.uncommitted', 'wait');
is(sql('SET client_min_messages = error; SELECT outbox.adopt()', 'ahead'), '990', 'the first batch of an adoption'); # ten were delivered
ok(Outbox::Faults::await_waiting('adopt.uncommitted'), 'and the keeper is at the second');
# That of the keeper has an xid, and is older than the worker's first look at the day: once more, when it is over.
more('ahead', 'c', 1, 10);
ok(wait_until(sub { $redis->xlen('here') == 10 }), 'meanwhile a worker reads');
Outbox::Faults::let_pass('adopt.uncommitted');
ok(Outbox::Faults::await_waiting('adopt.uncommitted'), 'the third');
more('ahead', 'c', 11, 20);
ok(wait_until(sub { $redis->xlen('here') == 20 }), 'and again, when earlier transactions have ended');
more('ahead', 'c', 21, 30);
ok(wait_until(sub { $redis->xlen('here') == 30 }), 'and knows that the days of the dump are');
Outbox::Faults::release('adopt.uncommitted');
Outbox::Faults::disarm($_) foreach qw(adopt.at_once adopt.rows);
ok(wait_until(sub { sql('SELECT count(*) FROM outbox_internal.adoption', 'ahead') eq '0' }, 60), 'adopted');
more('ahead', $_, 3001, 3003) foreach qw(a b);
idle('ahead', 'all is delivered');
is_deeply([ came('one')->{a}, came('two')->{b}, came('here')->{c} ], [ '6-3003', '6-3003', '1-30' ],
	'nothing is lost, repeated or out of order');
sql('DROP DATABASE ahead', 'template1');

# --- a clock that was put back ----------------------------------------------------------------------------------------
$redis->command('DEL', qw(one two here));
sql('CREATE EXTENSION outbox');
sql("CREATE SERVER r FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}');
	SELECT outbox.create_route('r', server => 'r', topic => 'r')");
more('postgres', 'k', 1, 5);
idle('postgres', 'a month ahead all works');
sql(q{SELECT outbox.pause('r', reason => 'to have a backlog')});
more('postgres', 'k', 6, 10);
Outbox::Faults::shift_clock(0);
Outbox::Faults::put('reset.sooner', 9_000_000);
isnt($node->psql('postgres', 'SELECT outbox.reset_clock()'), 0, 'a clock is not put back before all is delivered');
is(sql(q{SELECT outbox.reset_clock(force => true) > interval '1 day'}), 't', 'but by force');
$node->restart;
sql(q{SELECT outbox.resume('r')});
idle('postgres', 'and what was not delivered then');
is(came('r')->{k}, '1-10', 'is delivered now');
more('postgres', 'k', 11, 12);
sql(q{SELECT outbox.create_route('all', server => 'r', topic => 'all', start => 'earliest')});
idle('postgres', 'a route that begins at the earliest');
is(join(' ', sort { $a <=> $b } map { /(\d+)/ } @{ $redis->column('all', 'payload') }), join(' ', 1 .. 12), 'gets what was emitted in days to come, too');
sql(q{CALL outbox.seek('r', '-infinity', dry_run => false)});
idle('postgres', 'and one that is taken back there');
is(scalar(@{ $redis->entries('r') }), 24, 'sends all of it once more');
no_server_crashed($node);
done_testing();
