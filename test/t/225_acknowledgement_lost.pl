# An acknowledgement is lost after the destination has taken the events, where it can be: on its way from Redis and from Kafka
# (a proxy throws answers away, and then resets the connection), for what comes from the log and for what was parked; and in a
# sink process that has it and dies before its worker is told. Nothing is lost, no event is charged, keys keep their order,
# and what comes twice has the same id and bytes. Kafka takes twice nothing from one and the same producer.
# matrix: D3 E-1
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Proxy;
use Outbox::Test;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = new_node(conf => "restart_after_crash = off\noutbox.workers = 1\n");
my $proxy = Outbox::Proxy->new;
my $redis = Outbox::Redis->start;
my $kafka = Outbox::Kafka::available() ? $proxy->kafka : undef;
redis_route($node, { port => $proxy->redis($redis) }, 'redis', topic => q('lost'), aggregate_types => q('{redis}'));
if ($kafka)
{
	$kafka->create_topic('lost', 1);
	kafka_route($node, $kafka, 'kafka', topic => q('lost'), aggregate_types => q('{kafka}'));
}
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }

# Events of four keys, and how many there are; those of one transaction of each key in a row.
my %emitted;
sub emit
{
	my ($type, $count, $more) = @_;
	my ($from, $to) = (($emitted{$type} // 0) + 1, ($emitted{$type} // 0) + $count);
	$emitted{$type} = $to;
	return sql("SELECT count(outbox.emit_text('$type', 'k' || i % 4, 'x', i::text, headers => '{\"n\": \"a header\"}'" . ($more // '')
		  . ")) FROM generate_series($from, $to) i");
}
sub redis_records { return map { my $entry = $_; [ $entry->{payload}, join ' ', map { "$_=$entry->{$_}" } grep { $_ ne '_entry' } sort keys %$entry ] } @{ $redis->entries('lost') } }
sub kafka_records
{
	return map { my $record = $_; [ $record->{payload}, join ' ', $record->{key}, $record->{ts}, map { "$_=$record->{headers}{$_}" } sort keys %{ $record->{headers} } ] }
	  @{ $kafka->records('lost') };
}

# Every event came, each no more often than is allowed and `again` of them (or at least one) more than once, always with the
# same bytes; the first of each in the order of its key.
my %repeats = (redis => 0, kafka => 0);
sub check
{
	my ($type, $what, %allowed) = @_;
	my (%seen, %last, $order, $bytes);
	foreach my $record ($type eq 'redis' ? redis_records() : kafka_records())
	{
		my ($n, $all) = @$record;
		if (!$seen{$n}) { $order++ if ($last{ $n % 4 } // 0) > $n; $last{ $n % 4 } = $n }
		elsif ($seen{$n}[0] ne $all) { $bytes++ }
		push @{ $seen{$n} }, $all;
	}
	is(scalar keys %seen, $emitted{$type}, "$what: all events came");
	is($order // 0, 0, "$what: in the order of their keys");
	is($bytes // 0, 0, "$what: what came again has the same id and bytes");
	my $repeats = 0;
	$repeats += @$_ - 1 foreach values %seen;
	my $new = $repeats - $repeats{$type};
	$repeats{$type} = $repeats;
	cmp_ok($new, '<=', $allowed{most}, "$what: $new came again, no more than may");
	cmp_ok($new, '>=', $allowed{least}, "$what: and no fewer than must");
	is(sql('SELECT count(*) FROM outbox_internal.parked'), '0', "$what: no event is charged");
	return;
}

# What the destination holds, without asking it through a connection that gets no answer.
sub bytes_of { my ($type) = @_; return $type eq 'redis' ? $redis->command('EXISTS', 'lost') && $redis->xlen('lost') : -s "$kafka->{dir}/data/lost-0/00000000000000000000.log" // 0 }

# Events are taken, and the answer never comes: the connection is reset. So many times in a row for the same events of Redis,
# for events of so many transactions, which are on their way to Kafka at once.
sub answers_lost
{
	my ($type, $times, $more) = @_;
	my $wait = $more ? ' that were parked' : '';
	# Of a producer that is cut off before anything of a partition was acknowledged, that first record proves nothing and may
	# come again; one that has been answered goes on from there.
	if ($type eq 'kafka') { emit($type, 4); ok(wait_idle($node), "$type: its producer has been answered") }
	my $before = bytes_of($type);
	# A connection that is asked something else meanwhile, and gets no answer to that, is given up: so at the last moment.
	if ($type eq 'redis') { Outbox::Faults::arm('sink.redis.call', 'wait') }
	else { $proxy->tell($type, 'mute') }
	foreach my $time (1 .. $times)
	{
		emit($type, 20, $more) if $time == 1 || $type eq 'kafka';
		if ($type eq 'redis')
		{
			ok(Outbox::Faults::await_waiting('sink.redis.call'), "redis: events$wait are about to be sent ($time)");
			$proxy->tell($type, 'mute');
			Outbox::Faults::release('sink.redis.call');
		}
		ok(wait_until(sub { bytes_of($type) > $before }, 30), "$type: events$wait are taken ($time)");
		$before = bytes_of($type);
		next if $time < $times && $type eq 'kafka';
		Outbox::Faults::arm('sink.redis.call', 'wait') if $time < $times;
		$proxy->tell($type, 'refuse');
		$proxy->tell($type, 'pass');
	}
	ok(wait_idle($node, 60), "$type: and delivered");
	return;
}

emit($_, 8) foreach 'redis', $kafka ? 'kafka' : ();
ok(wait_idle($node), 'events flow');
check('redis', 'before', least => 0, most => 0);

answers_lost('redis', 1);
check('redis', 'an answer of Redis is lost', least => 1, most => 20);
answers_lost('redis', 2);
check('redis', 'two in a row are', least => 2, most => 40);
answers_lost('redis', 1, ", deliver_at => clock_timestamp() + interval '1 s'");
check('redis', 'that of what was parked', least => 1, most => 20);
is(sql(q{SELECT count(*), min(attempts), max(attempts) FROM outbox_internal.outcome}), '20|0|0', 'its events have one outcome each, and were never refused');

# The sink process has the answer, and is gone before its worker does.
Outbox::Faults::arm('sink.results.before', 'kill');
emit('redis', 20);
ok(wait_until(sub { Outbox::Faults::hits('sink.results.before') == 1 }, 30), 'a sink process dies with the answer of Redis');
ok(wait_idle($node), 'and all is delivered');
check('redis', 'the sink process has it and dies', least => 1, most => 20);

SKIP:
{
	skip $ENV{OUTBOX_NO_KAFKA}, 1 unless $kafka;
	check('kafka', 'before', least => 0, most => 0);
	answers_lost('kafka', 1);
	check('kafka', 'an answer of Kafka is lost', least => 0, most => 0);
	answers_lost('kafka', 2);
	check('kafka', 'those of two transactions', least => 0, most => 0);
	answers_lost('kafka', 1, ", deliver_at => clock_timestamp() + interval '1 s'");
	check('kafka', 'that of what was parked', least => 0, most => 0);
	Outbox::Faults::arm('sink.results.before', 'kill');
	emit('kafka', 20);
	ok(wait_until(sub { Outbox::Faults::hits('sink.results.before') == 2 }, 30), 'a sink process dies with the answer of Kafka');
	ok(wait_idle($node), 'and all is delivered');
	check('kafka', 'the sink process has it and dies', least => 1, most => 20);
}
$proxy->stop;
no_server_crashed($node);
done_testing();
