# What is paused while its destination is away is not sent when that is back: the sink process has had it, tries it again and again,
# and would write it at once. A pause of the route, of the destination, of the key and of the topic, to Redis and to Kafka; two routes,
# one of them paused; and a resume before the destination is back.
# matrix: S3
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.lone_emit = allow\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub state_of { my ($id, $route) = @_; return sql("SELECT state FROM outbox.status('$id') WHERE route = '$route'") }

my $redis = Outbox::Redis->start(conf => ['appendfsync no']);
redis_route($node, $redis, 'redis', topic => q('{aggregate_type}'));
my %of = (redis => $redis);
my %payloads = (redis => sub { return map { $_->{payload} } @{ $redis->entries($_[0]) } });
if (Outbox::Kafka->available)
{
	my $kafka = Outbox::Kafka->start;
	$kafka->create_topic($_, 2) foreach qw(warm_kafka other ofroute_kafka ofdestination_kafka ofkey_kafka oftopic_kafka resumed_kafka);
	kafka_route($node, $kafka, 'kafka', topic => q('{aggregate_type}'));
	$of{kafka} = $kafka;
	$payloads{kafka} = sub { return @{ $kafka->payloads($_[0]) } };
}
ok(wait_idle($node), 'the routes work');

foreach my $kind (sort keys %of)
{
	# A second route to the same destination, which goes on.
	sql("SELECT outbox.create_route('other', server => '$kind', aggregate_types => '{other}', topic => '{aggregate_type}')");
	sql("SELECT outbox.alter_route('$kind', aggregate_types => '{*_$kind}')");
	sql(qq{SELECT outbox.emit('other', 'k', 'e', '{"n": 0}'), outbox.emit('warm_$kind', 'k', 'e', '{"n": 0}')});
	ok(wait_idle($node), "$kind: two routes");
	my %paused = (
		"ofroute_$kind" => "'$kind'",
		"ofdestination_$kind" => "server => '$kind'",
		"ofkey_$kind" => "'$kind', aggregate_type => 'ofkey_$kind', aggregate_id => 'k'",
		"oftopic_$kind" => "'$kind', topic => 'oftopic_$kind'");
	my $n = 0;
	foreach my $type (sort keys %paused)
	{
		my $what = $paused{$type};
		$of{$kind}->stop;
		my $id = sql(qq{SELECT outbox.emit('$type', 'k', 'e', '{"n": 1}')});
		my $more = sql(qq{SELECT outbox.emit('$type', 'l', 'e', '{"n": 2}')});
		ok(wait_until(sub { sql("SELECT count(*) FROM outbox.lag WHERE route = '$kind' AND inflight > 0") > 0 }, 30), "$type: tried while it is away");
		# Before it is known to be away, what is in flight is awaited.
		ok(wait_for_value($node, "SELECT state IN ('open', 'half-open') FROM outbox.destination WHERE server = '$kind'", 't', 30), 'as is known');
		sql("SELECT outbox.pause($what, reason => 'ticket 4711')");
		my $after = ++$n;
		sql(qq{SELECT outbox.emit('other', 'k', 'e', '{"n": $after}')});
		$of{$kind}->restart;
		if ($type !~ /destination/)
		{
			ok(wait_until(sub { my @other = $payloads{$kind}->('other'); @other && $other[-1] eq "{\"n\": $after}" }, 60), 'what is not paused goes on when it is back');
		}
		else
		{
			sleep 4; # nothing tells that nothing is sent
		}
		my @came = grep { !($type =~ /key/ && $_ eq '{"n": 2}') } $payloads{$kind}->($type);
		is("@came", '', 'what is paused is not sent');
		sql("SELECT outbox.resume(" . $what . ")");
		ok(wait_idle($node, 60), 'resumed');
		my %seen;
		is(join(' ', sort grep { !$seen{$_}++ } $payloads{$kind}->($type)), '{"n": 1} {"n": 2}', 'all has come') or diag(state_of($id, $kind), state_of($more, $kind));
	}
	$of{$kind}->stop;
	sql(qq{SELECT outbox.emit('resumed_$kind', 'k', 'e', format('{"n": %s}', n)::jsonb) FROM generate_series(1, 20) n});
	ok(wait_until(sub { sql("SELECT count(*) FROM outbox.lag WHERE route = '$kind' AND inflight > 0") > 0 }, 30), "$kind: tried while it is away");
	sql("SELECT outbox.pause('$kind', reason => 'x'); SELECT outbox.resume('$kind')") foreach 1 .. 3;
	$of{$kind}->restart;
	ok(wait_idle($node, 60), 'paused and resumed before it is back');
	my %seen;
	is(join(' ', grep { !$seen{$_}++ } $payloads{$kind}->("resumed_$kind")), join(' ', map { "{\"n\": $_}" } 1 .. 20), 'all in order');
	sql("SELECT outbox.drop_route('other')");
}

no_server_crashed($node);
$node->stop;
done_testing();
