# Of four addresses three are of something that says a word and hangs up, as an HTTP server does, or a broker's listener for
# TLS. A producer that tries them before it finds the cluster has not lost the cluster: each event is delivered once.
use strict;
use warnings;

use IO::Socket::INET;
use Outbox::Kafka;
use Outbox::Test;
use POSIX ();
use Test::More;

Outbox::Kafka::skip_without();

my (@pids, @addresses);
END { my $status = $?; kill 'KILL', @pids if @pids; $? = $status }
for (1 .. 3)
{
	my $listen = IO::Socket::INET->new(Listen => 10, LocalAddr => '127.0.0.1') // die $!;
	push @addresses, '127.0.0.1:' . $listen->sockport;
	my $pid = fork // die $!;
	if ($pid == 0)
	{
		local $SIG{PIPE} = 'IGNORE';
		while (my $client = $listen->accept)
		{
			sysread $client, my $heard, 4;
			syswrite $client, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
			close $client;
		}
		POSIX::_exit(0);
	}
	push @pids, $pid;
}

my $kafka = Outbox::Kafka->start;
$kafka->create_topic('t', 50);
my $node = new_node();
my $list = join ',', @addresses, $kafka->{bootstrap};
$node->safe_psql('postgres', qq{CREATE SERVER events FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" '$list'); SELECT outbox.create_route('events', server => 'events', topic => 't')});
my $events = 60;
for my $n (1 .. $events)
{
	my $id = $node->safe_psql('postgres', "SELECT outbox.emit_text('order', 'k$n', 'x', 'x $n')");
	$node->safe_psql('postgres', "SELECT outbox.wait_for('$id', '60s')");
}
is($kafka->count('t'), $events, 'each event is there once');
no_server_crashed($node);
$node->stop;
done_testing();
