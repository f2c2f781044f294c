# Where a quota of Kafka's lets less through than comes, each topic has its part of it: what waits goes in the order it came. And topics that take
# nothing, for their replicas are away, keep nothing else back.
# ring: long
use strict;
use warnings;

use IPC::Run ();
use List::Util qw(max min);
use Outbox::Kafka;
use Outbox::Test;
use Test::More;

Outbox::Kafka::skip_without();
my $node = new_node();
my $kafka = Outbox::Kafka->start_cluster(3);
my @topics = map { "t$_" } 1 .. 4;
$kafka->create_topic($_, 1) foreach @topics;
$kafka->create_topic('stuck', 1, 'min.insync.replicas=3');
my ($jars, $out) = ('', '');
IPC::Run::run([ "$ENV{OUTBOX_TOP}/test/brokers/kafka.sh", 'prepare' ], '<', \undef, '>', \$jars) or die 'kafka.sh prepare';
chomp $jars;
IPC::Run::run([ 'java', '-Xmx128m', '-cp', "$jars/*:$jars/lib/*", 'kafka.admin.ConfigCommand', '--bootstrap-server', $kafka->{bootstrap}, '--alter',
	'--add-config', 'producer_byte_rate=20000', '--entity-type', 'clients', '--entity-default' ], '<', \undef, '>&', \$out) or die "ConfigCommand: $out";
kafka_route($node, $kafka, 'kafka', topic => q('{aggregate_type}'));
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub emit
{
	my ($count) = @_;
	return sql(qq(SELECT count(outbox.emit_text(t, 'k' || n, 'e', n || repeat('x', 1000))) FROM
		(SELECT n, t FROM generate_series(1, $count) n, unnest(array['@{[ join q(','), @topics ]}']) t ORDER BY n OFFSET 0) e));
}
sub counts { return map { $kafka->count($_) } @topics }

emit(1);
sql(q(SELECT outbox.emit_text('stuck', 'k', 'e', 'x')));
ok(wait_idle($node, 60), 'events flow');
ok(wait_until(sub { emit(40); return sql(q(SELECT error_code FROM outbox.destination)) eq 'THROTTLED' }, 60), 'until they are throttled');
emit(400);
my $before = max(counts());
ok(wait_until(sub { max(counts()) >= $before + 150 }, 120), 'a topic goes on');
my @counts = counts();
cmp_ok(max(@counts) - min(@counts), '<', 100, "as much as any other: @counts");

my $leader = $kafka->leader('stuck', 0);
my ($victim) = grep { $_ != $leader } @{ $kafka->{nodes} };
$victim->kill9;
ok(wait_until(sub { eval { !$kafka->in_sync('stuck') } }, 60), 'a replica is away');
sql(q(SELECT outbox.emit_text('stuck', 'k', 'e', 'x')));
my @last;
ok(wait_until(sub { @last = counts(); min(@last) >= min(@counts) + 100 }, 120), 'what is throttled goes on') || diag("@counts, @last");
done_testing();
