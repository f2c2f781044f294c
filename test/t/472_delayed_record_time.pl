# The time of a Kafka record is when the event was due, where it was delayed: a topic counts its limit of age and its retention from
# there. Whether it waited among parked events, or was due when it was read. The header created_at is the time of the call.
use strict;
use warnings;

use Outbox::Kafka;
use Outbox::Test;
use Test::More;

Outbox::Kafka::skip_without();

my $kafka = Outbox::Kafka->start;
my $node = new_node();
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sql(qq{CREATE SERVER k FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" '$kafka->{bootstrap}')});
$kafka->create_topic('any', 1);
$kafka->create_topic('limited', 1, 'message.timestamp.before.max.ms=15000');
sql(q{SELECT outbox.create_route('r', server => 'k', topic => '{aggregate_type}')});

sub emit { my ($type, $name, $due) = @_; return sql("SELECT outbox.emit_text('$type', 'k', 'e', '$name', deliver_at => $due)") }
# By payload: which time the record has, and that the header has the event's own.
sub record_times
{
	my ($topic) = @_;
	my %times;
	foreach my $record (@{ $kafka->records($topic) })
	{
		my $replay = defined $record->{headers}{'outbox-replay'} ? ' again' : '';
		my ($created, $due) = split /\|/, sql("SELECT (extract(epoch FROM created_at) * 1000000)::bigint, (extract(epoch FROM deliver_at) * 1000000)::bigint FROM outbox_internal.log WHERE id = '$record->{headers}{id}'");
		my $own = $record->{headers}{created_at} eq $created ? '' : ', the header is not its own';
		my $time = $record->{ts} == int($created / 1000) ? 'created' : $due && $record->{ts} == int($due / 1000) ? 'due' : $record->{ts};
		$times{"$record->{payload}$replay"} = "$time$own";
	}
	return \%times;
}

emit('limited', 'long', q(now() + interval '18 s'));
emit('any', 'scheduled', q(now() + interval '2 s'));
emit('any', 'past', q(now() - interval '1 hour'));
emit('any', 'at once', 'NULL');
ok(wait_until(sub { $kafka->count('any') == 3 }, 60), 'three arrive');
is_deeply(record_times('any'), { scheduled => 'due', past => 'created', 'at once' => 'created' }, 'one that has waited has the time when it was due');

# In a pause nobody sets it aside: it is due when it is read.
sql(q{SELECT outbox.pause('r', topic => 'any', reason => 'a deployment')});
ok(wait_for_value($node, q{SELECT count(*) FROM outbox_internal.side_topic WHERE topic = 'any'}, '1', 60), 'paused');
emit('any', 'paused', q(now() + interval '1 s'));
ok(wait_for_value($node, q{SELECT max(deliver_at) < now() - interval '1 s' FROM outbox_internal.log WHERE payload = 'paused'}, 't', 60), 'one falls due in a pause');
is(sql(q{SELECT count(*) FROM outbox_internal.parked WHERE payload = 'paused'}), '0', 'where it was not set aside');
sql(q{SELECT outbox.resume('r', topic => 'any')});
ok(wait_until(sub { $kafka->count('any') == 4 }, 60), 'it arrives');
is(record_times('any')->{paused}, 'due', 'with the time when it was due');

# A replay is of old events: that it is sent now makes none young, and none older than it was.
sql(q{CALL outbox.replay(since => '-infinity', route => 'r', aggregate_type => 'any', per_second => 1, dry_run => false)});
ok(wait_until(sub { $kafka->count('any') == 8 }, 60), 'all four are sent again');
is_deeply({ map { $_ => record_times('any')->{"$_ again"} } 'scheduled', 'past', 'at once', 'paused' },
	{ scheduled => 'due', past => 'created', 'at once' => 'created', paused => 'due' }, 'with the time that they had');

ok(wait_until(sub { $kafka->count('limited') == 1 || sql('SELECT count(*) FROM outbox.dead_letter') }, 60), 'what waited longer than its topic lets an event be old has an outcome');
is(sql(q{SELECT string_agg(error_code, ' ') FROM outbox.parked_event}), '', 'it was not refused');
is_deeply(record_times('limited'), { long => 'due' }, 'it has arrived');

# test_server() tells of a topic that keeps events for less than a day by their own time, and of no other.
$kafka->create_topic('brief', 1, 'retention.ms=3600000');
$kafka->create_topic('arrived', 1, 'retention.ms=3600000', 'message.timestamp.type=LogAppendTime');
$kafka->create_topic('compact', 1, 'retention.ms=3600000', 'cleanup.policy=compact');
sub retention { my ($topic) = @_; return sql(qq{SELECT ok, error_code IS NULL, detail, hint <> '' FROM outbox.test_server('k', '$topic', timeout => '30 s') WHERE "check" = 'retention'}) }
like(retention('brief'), qr/^t\|t\|topic "brief" keeps events for less than a day, .*retention\.ms=3600000.*\|t$/, 'a topic that keeps events for an hour');
is(retention($_), '', "not of a topic that is $_") foreach qw(any arrived compact);

no_server_crashed($node);
$node->stop;
done_testing();
