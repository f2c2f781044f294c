# matrix: S6
# Sixty-four lanes that are in the middle of one window look through the log once, and not sixty-four times: those of a
# route that is moved, to a time and to the end; of a new one that begins at a time; and of a worker that is killed while
# they are somewhere in one large transaction. All comes, in order.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $lanes = 64;
my $unwanted = 20_000;
my $node = new_node(conf => "outbox.workers = 1\noutbox.max_lanes = 256\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'wide', aggregate_types => q('{w}'), topic => "'wide'", lanes => $lanes);
redis_route($node, $redis, 'other', aggregate_types => q('{o}'), topic => "'other'");

sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
# Entries of the log's indexes that were read, when the worker has said what it has read.
sub settled { return value_at_rest($node, q{SELECT coalesce(sum(idx_tup_read), 0) FROM pg_stat_user_indexes WHERE schemaname LIKE 'outbox%' AND relname LIKE 'log\_%'}, 25) }
# What it reads while something happens, in looks at all of the log. On a busy machine some lanes come too late for the common one.
sub looks
{
	my ($what) = @_;
	my $before = settled();
	$what->();
	ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.lane_position WHERE window_to IS NOT NULL', 0, 60), 'no lane is in a window');
	my $looks = (settled() - $before) / ($unwanted + 640);
	ok(wait_idle($node, 60), 'idle');  # and that has looks of its own
	return $looks;
}
# All that came of a topic: per key in the order of its numbers, so many times over; 'first': what comes again is not counted.
sub in_order
{
	my ($topic, $times) = @_;
	my %came;
	push @{ $came{ $_->{key} } }, $_->{payload} foreach @{ $redis->entries($topic) };
	if ($times eq 'first')
	{
		$times = 1;
		foreach my $key (keys %came)
		{
			my %seen;
			$came{$key} = [ grep { !$seen{$_}++ } @{ $came{$key} } ];
		}
	}
	my @wrong = grep {
		my @once = sort { $a <=> $b } do { my %each = map { $_ => 1 } @{ $came{$_} }; keys %each };
		"@{ $came{$_} }" ne join ' ', (@once) x $times;
	} keys %came;
	is(join(' ', sort @wrong), '', "$topic: each key in order");
	is(scalar keys %came, 128, 'and of all keys');
	return;
}

sql("SELECT count(outbox.emit_text('none', i::text, 'x', '0')) FROM generate_series(1, $unwanted) i");
my $moment = sql('SELECT clock_timestamp()');
sql("SELECT count(outbox.emit_text('w', (i % 128)::text, 'x', i::text)) FROM generate_series(1, 640) i");
ok(wait_idle($node, 60), 'all is delivered');
is($redis->xlen('wide'), 640, 'once');

my $looks = looks(sub { sql(q{CALL outbox.seek('wide', 'infinity', reason => 'test', dry_run => false)}) });
cmp_ok($looks, '<', $lanes / 4, "moved to the end: $looks looks");
is($redis->xlen('wide'), 640, 'and nothing is sent');
$looks = looks(sub { sql(qq{CALL outbox.seek('wide', '$moment', reason => 'test', dry_run => false)}) });
cmp_ok($looks, '<', $lanes / 4, "moved back to a time: $looks looks");
cmp_ok($looks, '>', 0.9, 'which are counted');
is($redis->xlen('wide'), 1280, 'and all after it is sent again');
in_order('wide', 2);

$looks = looks(sub { sql(qq{SELECT outbox.create_route('later', server => 'wide', aggregate_types => '{w}', topic => 'later', lanes => $lanes, start => '$moment')}) });
cmp_ok($looks, '<', $lanes / 4, "a route that begins at a time: $looks looks");
is($redis->xlen('later'), 640, 'and sends what came then');
in_order('later', 1);
sql(q{SELECT outbox.drop_route('later')});

# One transaction of so many events that the worker ends in the middle of it. What it was sent is answered and saved.
$redis->command('DEL', 'wide');
my $large = 128 * 1200;
$looks = looks(sub {
	sql("SELECT count(outbox.emit_text('w', (i % 128)::text, 'x', i::text)) FROM generate_series(1, $large) i");
	ok(wait_until(sub { $redis->xlen('wide') > 2000 }, 30), 'a large transaction is on its way');
	sql(q{SELECT outbox.pause('wide', reason => 'test')});
	sql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'outbox relay'});
	ok(wait_for_value($node, 'SELECT count(*) > 8 FROM outbox_internal.lane_position WHERE window_to IS NOT NULL', 't', 30), 'the worker ends while lanes are in the middle of it');
	sql(q{SELECT outbox.resume('wide')});
});
$looks *= ($unwanted + 640) / $large;
cmp_ok($looks, '<', $lanes / 4, "both workers: $looks looks");
my %came = map { $_->{payload} => 1 } @{ $redis->entries('wide') };
is(scalar keys %came, $large, 'each event comes');
in_order('wide', 'first');  # a worker on a busy machine may have to leave before all is answered
no_server_crashed($node);
done_testing();
