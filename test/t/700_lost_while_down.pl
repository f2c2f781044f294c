# The server and a Kafka broker go down together, and the broker comes back without what it had acknowledged (it had not
# written that to disk): it is told, as if the server had been there; and nothing is told where the broker has all it had, or was replaced.
use strict;
use warnings;

use Outbox::Kafka;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

Outbox::Kafka::skip_without();
my $kafka = Outbox::Kafka->start;
$kafka->create_topic($_, 1) for qw(t u);
my $node = new_node();
kafka_route($node, $kafka, 'kafka', topic => "'t'", aggregate_types => "'{shop}'");
$node->safe_psql('postgres', q(SELECT outbox.create_route('second', server => 'kafka', topic => 'u', aggregate_types => '{other}')));
my %events;
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub told { return sql(q(SELECT detail FROM outbox.doctor() WHERE "check" = 'destination' AND status <> 'ok')) }

sub delivered
{
	my ($type, $count, $what) = @_;
	sql("SELECT outbox.emit_text('$type', '1', 'e', n::text) FROM generate_series(1, $count) n");
	$events{$type} += $count;
	return ok(wait_idle($node, 60), "delivered $what");
}
sub copy { my ($from, $to) = @_; return system('rm', '-rf', "$kafka->{dir}/$to") == 0 && system('cp', '-a', "$kafka->{dir}/$from", "$kafka->{dir}/$to") == 0 }
# Events are delivered a moment before their position is saved.
sub noted { return wait_until(sub { sql("SELECT count(*) FROM outbox_internal.progress WHERE run <> '' AND places::text ~ '$_[0]'") > 0 }, 30) }

delivered('shop', 5, 'what is kept');
delivered('other', 1, 'to another topic');
ok(noted('t/0": ..., "4"'), 'it is noted, with its cluster') or diag sql('SELECT * FROM outbox_internal.progress');
$kafka->stop;
ok(copy('data', 'before'), 'a copy of its disk');
$node->stop('immediate');
$kafka->restart;
$node->start;
delivered('shop', 7, 'what will be lost');
is(told(), '', 'a restart of both is no news');
ok(noted('t/0": ..., "11"'), 'noted');

$node->stop('immediate');
$kafka->kill9;
ok(copy('before', 'data'), 'the disk of the broker is replaced by its copy');
$kafka->restart;
$node->start;
delivered('other', 1, 'to the topic that has lost nothing');
is(told(), '', 'which is no news');
delivered('shop', 1, 'to the one that has');
ok(wait_until(sub { told() ne '' }, 30), 'doctor() tells of it');
like(told(), qr/^Destination "kafka" works, but OFFSETS_WENT_BACK: topic "t" has lost what it had acknowledged, or was made anew: partition 0 had acknowledged up to offset 11, and at \d\d:\d\d:\d\d UTC a later event at 5$/,
	'what, and where');
ok(wait_until(sub { slurp_file($node->logfile) =~ /WARNING: .*destination "kafka" is used, but topic "t" has lost what it had acknowledged/ }, 30), 'and the log');
is(scalar(() = slurp_file($node->logfile) =~ /has lost what it had acknowledged/g), 1, 'once');

# By then the end of the partition is where it has been since.
ok(noted('t/0": ..., "5"'), 'noted');
$node->stop('immediate');
$node->start;
delivered('shop', 2, 'after one more restart');
is(told(), '', 'what was told is no news again');

# And where a sink process alone goes down with the broker.
ok(noted('t/0": ..., "7"'), 'noted');
$kafka->kill9;
ok(copy('before', 'data'), 'once more');
kill 'KILL', sink_pids($node);
$kafka->restart;
delivered('shop', 1, 'to a sink that is new');
ok(wait_until(sub { told() =~ /up to offset 7, .* a later event at 5$/ }, 30), 'told') or diag told();

# And where the next event to that partition is a delayed one, which goes by a sink of its own.
delivered('shop', 3, 'more');
ok(noted('t/0": ..., "8"'), 'noted');
$node->stop('immediate');
$kafka->kill9;
ok(copy('before', 'data'), 'once more');
$kafka->restart;
$node->start;
is(told(), '', 'nothing is told of it yet');
sql(q(SELECT outbox.emit_text('shop', '1', 'e', 'later', deliver_at => clock_timestamp() + interval '1 s')));
ok(wait_until(sub { told() =~ /up to offset 8, .* a later event at 5$/ }, 30), 'told') or diag told();

no_server_crashed($node);
done_testing();
