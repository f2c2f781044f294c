# Addresses of two clusters in bootstrap.servers: each relay worker is at the one that answered it. That two deliver to two is
# told by doctor() and outbox.destination for as long as it lasts, and in the log; and that it was another one before, after it.
use strict;
use warnings;

use Outbox::Kafka;
use Outbox::Proxy;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

Outbox::Kafka::skip_without();
my @id = qw(Zmlyc3QtdGVzdC1rYWZrYS c2Vjb25kLXRlc3Qta2Fma2);
my ($first, $second) = map { local $ENV{OUTBOX_KAFKA_CLUSTER} = $_; Outbox::Kafka->start } @id;
$_->create_topic('t', 1) foreach $first, $second;
$second->kill9;

my $node = new_node(conf => "outbox.workers = 2\n");
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub told { return sql(q(SELECT status, detail FROM outbox.doctor() WHERE "check" = 'destination' AND status <> 'ok')) }
sub delivered { my ($what) = @_; sql(q{SELECT outbox.emit_text('a', i::text, 'e', 'x') FROM generate_series(1, 20) i}); return ok(wait_idle($node, 120), "delivered $what") }
sub lines { my ($of) = @_; return scalar(() = slurp_file($node->logfile) =~ /"k" is used, but $of/g) }

# The first one's door: who came in by it goes on without it.
my $proxy = Outbox::Proxy->new;
my $door = Outbox::Proxy::free_port();
$proxy->start('door', $door, $first->{bootstrap} =~ /:(\d+)$/);
sql(qq{CREATE SERVER k FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" '127.0.0.1:$door,$second->{bootstrap}');
	SELECT outbox.create_route('r', server => 'k', topic => 't', lanes => 2)});
delivered('to the one that is there');
ok(wait_for_value($node, q(SELECT count(*) FROM outbox.worker WHERE kind = 'relay' AND lanes = 1), '2', 60), 'by two workers');
# Each of them has to have come in by now: one whose sink is still at the door when that closes goes to the other cluster, too.
delivered('by both');
is(told(), '', 'all is well');

# A new sink of one of them finds that door closed, and the other cluster.
my ($sink) = sink_pids($node);
$second->restart;
$proxy->stop;
kill 'KILL', $sink;
ok(wait_until(sub { sql('SELECT cluster FROM outbox_internal.met_cluster') eq $id[1] }, 120), 'a worker is at the other cluster');
ok(wait_until(sub { told() =~ /^problem\|Destination "k" works, but TWO_CLUSTERS: its relay workers are at two clusters, "[^"]+" and "[^"]+": each delivers to its own$/ }, 120), 'doctor() tells of both') or diag told();
delivered('to two clusters');
is(sql('SELECT outbox.doctor_ok()'), 'f', 'all is not well');
ok(wait_until(sub { sql('SELECT count(*) FROM outbox.destination WHERE error_code = $$TWO_CLUSTERS$$') > 0 }, 120), 'outbox.destination has it');
ok(wait_until(sub { lines('its relay workers are at two clusters') == 1 }, 60), 'and the log, once');
is(lines('at its addresses there is another cluster'), 1, 'where it has that there is another than before');

# It is mended, and was so.
sql(qq{ALTER SERVER k OPTIONS (SET "bootstrap.servers" '$second->{bootstrap}')});
delivered('to one again');
ok(wait_until(sub { told() =~ /^warning\|Destination "k" is another cluster since [^\n]*$/ }, 120), 'of two nothing more is told; of the other for an hour') or diag told();
no_server_crashed($node);
done_testing();
