# outbox.test_server() and a Kafka that asks who is there: well, wrong password, TLS by a stranger's certificate and to a listener without,
# a topic that is missing or forbidden, a user who may write nothing. By the classes and codes that a worker shows; no topic is made by
# looking, and no secret is told.
# ring: long
use strict;
use warnings;

use IO::Select;
use IO::Socket::INET;
use Outbox::Test;
use POSIX ();
use PostgreSQL::Test::Utils;
use Socket qw(SOL_SOCKET SO_LINGER);
use Test::More;

Outbox::Kafka::skip_without();
my $kafka = Outbox::Kafka->start_secured(users => { outbox => 'right-canary', nobody => 'other-canary' });
my $trusted = $kafka->{certificate};
my (undef, $stranger) = Outbox::Kafka::key_and_certificate();
$kafka->create_topic($_, 2) foreach qw(well denied);
$kafka->grant('well', 'outbox');

my $node = new_node();
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub server
{
	my ($name, $address, $protocol, $user, $password, $more) = @_;
	sql(qq{CREATE SERVER $name FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" '$address', "security.protocol" '$protocol', "sasl.mechanism" 'PLAIN'} . ($more // '') . ')');
	return sql(qq{CREATE USER MAPPING FOR PUBLIC SERVER $name OPTIONS ("sasl.username" '$user', "sasl.password" '$password')});
}
my %told;
sub look
{
	my ($server, $topic, $timeout) = @_;
	$timeout //= '30 s';
	my @rows = split /\n/, sql("SELECT \"check\", ok, error_class, error_code, detail, hint FROM outbox.test_server('$server'"
		  . (defined $topic ? ", '$topic'" : '') . ", timeout => '$timeout')");
	$told{ $rows[-1] } = 1;
	return join '|', (split /\|/, $rows[-1], -1)[ 0 .. 3 ];
}

sql(qq{CREATE SERVER plain FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" '$kafka->{bootstrap}')});
is(look('plain'), 'connection|t||', 'a Kafka that is well');
like(sql(q{SELECT detail FROM outbox.test_server('plain', timeout => '30 s') WHERE "check" = 'connection'}), qr/^1 broker, asked: .*; librdkafka \d/, 'its brokers, and what asks');
is(look('plain', 'well'), 'rights|t||', 'with a topic');
is(look('plain', 'missing'), 'topic|f|topic|UNKNOWN_TOPIC_OR_PART', 'a topic that is missing');
is(look('plain', 'missing'), 'topic|f|topic|UNKNOWN_TOPIC_OR_PART', 'and is not made by looking');

server('events', $kafka->{sasl}, 'sasl_plaintext', 'outbox', 'right-canary');
is(look('events', 'well'), 'rights|t||', 'the right password');
is(look('events', 'denied'), 'topic|f|topic|TOPIC_AUTHORIZATION_FAILED', 'a topic that is forbidden');
server('wrong', $kafka->{sasl}, 'sasl_plaintext', 'outbox', 'wrong-canary');
like(look('wrong', 'well'), qr/^connection\|f\|config\|(_AUTHENTICATION|SASL_AUTHENTICATION_FAILED)$/, 'a wrong password');
server('nobody', $kafka->{sasl}, 'sasl_plaintext', 'nobody', 'other-canary');
is(look('nobody', 'well'), 'topic|f|topic|TOPIC_AUTHORIZATION_FAILED', 'a user without rights');
server('tls', $kafka->{tls}, 'sasl_ssl', 'outbox', 'right-canary', qq(, "ssl.ca.pem" '$trusted'));
is(look('tls', 'well'), 'rights|t||', 'TLS');
server('stranger', $kafka->{tls}, 'sasl_ssl', 'outbox', 'right-canary', qq(, "ssl.ca.pem" '$stranger'));
is(look('stranger', 'well'), 'connection|f|config|_SSL', 'a certificate of a stranger');
# One that hangs up on the first in the midst of its greeting, as a busy broker may, and lets the next wait: by an end, and by a reset.
foreach my $end (qw(closes resets))
{
	my $gate = IO::Socket::INET->new(Listen => 5, LocalAddr => '127.0.0.1');
	my $door = fork() // die "fork: $!";
	if (!$door)
	{
		my $first = $gate->accept;
		sysread($first, my $greeting, 65536);
		setsockopt($first, SOL_SOCKET, SO_LINGER, pack('ii', 1, 0)) if $end eq 'resets';
		close $first;
		while (my $client = $gate->accept)
		{
			next if fork();
			select(undef, undef, undef, 1);
			my $broker = IO::Socket::INET->new(PeerAddr => $kafka->{tls}) or POSIX::_exit(1);
			my $ends = IO::Select->new($client, $broker);
			while (my @ready = $ends->can_read)
			{
				foreach my $from (@ready)
				{
					sysread($from, my $bytes, 65536) or POSIX::_exit(0);
					syswrite($from == $client ? $broker : $client, $bytes);
				}
			}
		}
		POSIX::_exit(0);
	}
	server($end, 'localhost:' . $gate->sockport, 'sasl_ssl', 'outbox', 'right-canary', qq(, "ssl.ca.pem" '$stranger'));
	is(look($end, 'well', '60 s'), 'connection|f|config|_SSL', "the same of one that $end the first connection");
	kill 'KILL', $door;
}
server('untold', $kafka->{tls}, 'sasl_plaintext', 'outbox', 'right-canary');
like(look('untold', 'well'), qr/^connection\|f\|/, 'a TLS listener that is spoken to without');
is(join('', grep { /canary/ } keys %told, slurp_file($node->logfile) =~ /canary/ ? 'canary in the log' : ()), '', 'no password is told');
no_server_crashed($node);
done_testing();
