# Every address in bootstrap.servers is tried by itself: a client is content with the one that answers, so that a dead one, or one of
# another cluster, is not heard of before the others are down. Two that are dead, all that are dead, all that live, twice the same.
use strict;
use warnings;

use IO::Socket::INET;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

Outbox::Kafka::skip_without();
my $kafka = Outbox::Kafka->start;
my $other = do { local $ENV{OUTBOX_KAFKA_CLUSTER} = 'b3RoZXItb3V0Ym94LWNsdQ'; Outbox::Kafka->start };
my $node = new_node();
$kafka->create_topic('orders', 1);

my $number = 0;
sub rows
{
	my ($addresses, @more) = @_;
	my $name = 'events' . ++$number;
	my $arguments = join ', ', "'$name'", @more, "timeout => '20 s'";
	$node->safe_psql('postgres', qq{CREATE SERVER $name FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" '} . join(',', @$addresses) . q{')});
	return grep { !/^options/ } split /\n/, $node->safe_psql('postgres', qq{SELECT "check", ok, error_code, detail, hint FROM outbox.test_server($arguments)});
}
sub checks { return join ' ', map { join ':', (split /\|/)[ 0, 1 ] } @_ }
my $socket = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1');
my $closed = '127.0.0.1:' . $socket->sockport;
close $socket;
my $living = $kafka->{bootstrap};

is(checks(rows([$living])), 'connection:t', 'one that lives');
is(checks(rows([ $living, " $living" ], "'orders'")), 'connection:t topic:t rights:t', 'the same twice');

foreach my $list ([ $living, $closed, 'no-such-host.invalid:9092' ], [ 'no-such-host.invalid:9092', $closed, $living ])
{
	my @rows = rows($list, "'orders'");
	is(checks(@rows), 'connection:t bootstrap:t topic:t rights:t', 'two of three are dead, and it delivers');
	like($rows[1], qr/2 of the 3 addresses in bootstrap\.servers let nobody in: .*take it out/, 'how many');
	like($rows[1], qr/\Q$closed\E, .*refused/, 'the one that is closed');
	like($rows[1], qr/no-such-host\.invalid:9092, .*esolve/, 'the one without a name');
	unlike($rows[1], qr/\Q$living\E/, 'not the one that lives');
}
my @rows = rows([ $closed, 'no-such-host.invalid:9092' ], "'orders'");
is(checks(@rows), 'connection:f', 'all are dead: that is what is said, once');

@rows = rows([ $living, $other->{bootstrap}, $closed ]);
is(checks(@rows), 'connection:t bootstrap:f bootstrap:t', 'addresses of two clusters');
like($rows[1], qr/\|TWO_CLUSTERS\|.*two clusters: \Q$living\E is of "[^"]+", and \Q$other->{bootstrap}\E of "[^"]+"/, 'which they are');

no_server_crashed($node);
done_testing();
