# matrix: E-5 B12 R8
# Positions are kept as long as the log: a Redis that goes back by days is sent what those days had, and status() tells of
# an event of any day where it went, or nothing.
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.retention = '30d'\n");
my $redis = Outbox::Redis->start(conf => [ 'appendonly no', 'save ""' ]);
redis_route($node, $redis, 'r', topic => q('s'), server_options => q(, timeout '5000'));
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }

my @ids;
foreach my $day (0 .. 4)
{
	Outbox::Faults::shift_clock($day * 86_400_000_000);
	emit_counted($node, 's', ['k'], $day * 10 + 1, $day * 10 + 10);
	ok(wait_idle($node), "day $day: idle");
	push @ids, sql("SELECT id FROM outbox_internal.log ORDER BY created_at DESC LIMIT 1");
	$redis->command('SAVE') if $day == 1;
	upkeep($node);
}
is(sql("SELECT count(DISTINCT created_at::date) FROM outbox_internal.log"), 5, 'the log has all days');
my %last;
$last{ (split / /, $_->{payload})[1] } = $_->{_entry} foreach @{ $redis->entries('s') };
foreach my $day (0 .. 4)
{
	is(sql("SELECT delivered_at < created_at + interval '1 h', places -> 's' ->> 1 FROM outbox.status('$ids[$day]')"),
		't|' . $last{ $day * 10 + 10 }, "status() tells when and where the last event of day $day went");
}

$redis->kill9;
$redis->restart;
ok(wait_until(sub { sql(q{SELECT count(*) FROM outbox.audit WHERE action = 'rewind'}) == 1 }, 30), 'Redis is what it was on day 1');
ok(wait_idle($node), 'idle');
is(by_key($redis->column('s', 'payload'))->{k}, join(' ', 1 .. 50), 'what was delivered since comes again, each event once, and no other');

# Older than what it was put to: where the lane stood before is kept, and so is the event's own place.
sql(q{CALL outbox.seek('r', 'infinity', reason => 'a test', dry_run => false)});
emit_counted($node, 's', ['k'], 51, 51);
ok(wait_idle($node), 'idle after seek()');
is(sql("SELECT state, delivered_at < created_at + interval '1 h', places -> 's' ->> 1 FROM outbox.status('$ids[0]')"), "delivered|t|$last{10}",
	'status() tells the place from before the seek');
is(sql(q{SELECT state, delivered_at IS NULL, places IS NULL FROM outbox.status((SELECT id FROM outbox_internal.log ORDER BY created_at DESC LIMIT 1))}),
	'delivered|f|f', 'of what came later it knows');

# What was delivered before the seek and is lost is not sent again by itself, and that is said.
sql(q{CALL outbox.seek('r', 'infinity', reason => 'a test', dry_run => false)});
$redis->kill9;
$redis->restart;
ok(wait_for_value($node, q{SELECT count(*) FROM outbox.audit WHERE action = 'lost writes' AND reason LIKE '%when its lanes began anew%'}, 1, 30),
	'a loss of what is older than a seek is said');
is(sql(q{SELECT count(*) FROM outbox.audit WHERE action = 'rewind'}), 1, 'and nothing put back');

# The days of the log go, and with them those of its progress, and no others.
$node->append_conf('postgresql.conf', "outbox.retention = '2d'");
emit_counted($node, 's', ['k'], 52, 52);
ok(wait_idle($node), 'idle');
ok(wait_until(sub { upkeep($node); sql(q{SELECT count(DISTINCT created_at::date) < 5 FROM outbox_internal.log}) eq 't' }, 60), 'days of the log go');
upkeep($node);
is(sql(q{SELECT (SELECT min(right(relname, 8)) FROM pg_class WHERE relname ~ '^progress_\d{8}$')
	>= (SELECT min(right(relname, 8)) FROM pg_class WHERE relname ~ '^log_\d{8}$')}), 't', 'and those of the progress with them');
is(sql(q{SELECT count(*) > 1 FROM pg_class WHERE relname ~ '^progress_\d{8}$' AND right(relname, 8) < to_char((SELECT max(created_at) FROM outbox_internal.log) AT TIME ZONE 'UTC', 'YYYYMMDD')}),
	't', 'but no others');
no_server_crashed($node);
done_testing();
