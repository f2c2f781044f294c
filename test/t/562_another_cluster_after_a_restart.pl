# A Kafka cluster is replaced by another at its address while PostgreSQL is down, and by ALTER SERVER: the worker that comes has
# met neither, and it is told once, for an hour, by any worker. The same cluster, another name of the destination and another
# destination of that name are no news.
use strict;
use warnings;

use Outbox::Kafka;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

Outbox::Kafka::skip_without();
my ($first_id, $second_id, $third_id) = qw(Zmlyc3QtdGVzdC1rYWZrYS c2Vjb25kLXRlc3Qta2Fma2 dGhpcmQtdGVzdC1rYWZrYQ);
sub kafka { my ($id, $port) = @_; local $ENV{OUTBOX_KAFKA_CLUSTER} = $id; my $kafka = Outbox::Kafka->start_at($port // 0); $kafka->create_topic('t', 1); return $kafka }

my $node = new_node();
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub told { return sql(q(SELECT status, detail FROM outbox.doctor() WHERE "check" = 'destination' AND status <> 'ok')) }
sub lines { return scalar(() = slurp_file($node->logfile) =~ /is used, but at its addresses there is another cluster/g) }
sub met { return sql(q(SELECT s.srvname, m.cluster, m.former FROM outbox_internal.met_cluster m JOIN pg_foreign_server s ON s.oid = m.server)) }
my $events = 0;

sub delivered
{
	my ($what) = @_;
	$events++;
	sql("SELECT outbox.emit_text('a', '1', 'e', '$events')");
	return ok(wait_idle($node), "delivered $what");
}

my $first = kafka($first_id);
my ($port) = $first->{bootstrap} =~ /:(\d+)$/;
sql(qq{CREATE SERVER k FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" '$first->{bootstrap}'); SELECT outbox.create_route('r', server => 'k', topic => 't')});
delivered('to the first cluster');
ok(wait_until(sub { met() eq "k|$first_id|" }, 60), 'which is known from now on') or diag met();
$node->restart;
delivered('after a restart');
is(told(), '', 'the same cluster is no news');
is(lines(), 0, 'nor in the log');

$node->stop;
$first->kill9;
my $second = kafka($second_id, $port);
$node->start;
delivered('to another cluster');
ok(wait_until(sub { told() ne '' }, 60), 'doctor() tells of it');
like(told(), qr/^warning\|Destination "k" is another cluster since \d\d:\d\d:\d\d UTC, ANOTHER_CLUSTER: "$second_id", and before it was "$first_id"; what was delivered until then is in that one\.$/, 'once');
is(sql('SELECT outbox.doctor_ok()'), 'f', 'all is not well');
ok(wait_until(sub { sql('SELECT state, error_code FROM outbox.destination') eq 'closed|ANOTHER_CLUSTER' }, 60), 'outbox.destination has it');
ok(wait_until(sub { lines() == 1 }, 60), 'and the log');
$node->restart;
delivered('after a restart');
ok(wait_until(sub { sql('SELECT state, error_code FROM outbox.destination') eq 'closed|' }, 60), 'another worker, which has met no other');
like(told(), qr/^warning\|Destination "k" is another cluster since /, 'doctor() tells of it all the same');
is(lines(), 1, 'and the log no more');

# On purpose, and the destination has another name by then.
my $third = kafka($third_id);
sql('ALTER SERVER k RENAME TO kk');
sql(qq{ALTER SERVER kk OPTIONS (SET "bootstrap.servers" '$third->{bootstrap}')});
delivered('where ALTER SERVER leads');
ok(wait_until(sub { told() =~ /^warning\|Destination "kk" is another cluster .*"$third_id", and before it was "$second_id"/ }, 60), 'that is told') or diag told();
ok(wait_until(sub { lines() == 2 }, 60), 'in the log, too');
is(met(), "kk|$third_id|$second_id", 'what is known');
is(sql(q{SELECT count(*) FROM outbox_internal.met_cluster}), 1, 'of one destination');

# An hour later (what is written there is never changed by anybody else).
sql(q(SET session_replication_role = 'replica'; SET outbox.allow_loss = on; UPDATE outbox_internal.met_cluster SET met_at = met_at - interval '61 minutes'));
$node->restart;
delivered('an hour later');
is(told(), '', 'nothing any more');

# A destination of that name that is another.
sql(qq{SELECT outbox.drop_route('r'); DROP SERVER kk; CREATE SERVER kk FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" '$second->{bootstrap}');
	SELECT outbox.create_route('r', server => 'kk', topic => 't')});
delivered('to a destination that is new');
ok(wait_until(sub { met() eq "kk|$second_id|" }, 60), 'is known anew') or diag met();
is(sql(q{SELECT count(*) FROM outbox_internal.met_cluster}), 1, 'the dropped one is forgotten');
is(told(), '', 'and no news');
is(lines(), 2, 'nor in the log');

# A copy of the database that is adopted, and delivers elsewhere: nothing that it delivered is anywhere else.
$node->safe_psql('template1', 'CREATE DATABASE copy TEMPLATE postgres');
is($node->safe_psql('copy', 'SELECT count(*) FROM outbox_internal.met_cluster'), 1, 'a copy of the database has it');
$node->safe_psql('copy', qq{ALTER SERVER kk OPTIONS (SET "bootstrap.servers" '$third->{bootstrap}')});
$node->safe_psql('copy', 'SELECT outbox.adopt()');
$node->safe_psql('copy', q{SELECT outbox.emit_text('a', '1', 'e', 'of the copy')});
ok(wait_until(sub { $node->safe_psql('copy', q{SELECT cluster, former FROM outbox_internal.met_cluster}) eq "$third_id|" }, 60), 'adopted, it learns which one it is without a word');
is(lines(), 2, 'in the log');
no_server_crashed($node);
done_testing();
