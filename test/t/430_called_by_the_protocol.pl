# A function may be called by a message of the protocol (libpq's PQfn), which has no expression: nothing but the function itself
# says then which types its arguments have.
# matrix: G2
use strict;
use warnings;

use IO::Socket::UNIX;
use Outbox::Test;
use Test::More;

my $node = new_node();
$node->safe_psql('postgres', q{
	CREATE SERVER n FOREIGN DATA WRAPPER outbox_null;
	SELECT outbox.create_route('r', server => 'n')});

my $socket = IO::Socket::UNIX->new(Type => SOCK_STREAM, Peer => $node->host . '/.s.PGSQL.' . $node->port) or BAIL_OUT("cannot connect: $!");

sub receive
{
	my ($bytes) = @_;
	my $text = '';
	while (length $text < $bytes)
	{
		sysread($socket, $text, $bytes - length $text, length $text) or BAIL_OUT('the server has closed the connection');
	}
	return $text;
}

# Until the server is ready: what it has said, by type.
sub answers
{
	my %said;
	for (;;)
	{
		my ($type, $length) = unpack 'a N', receive(5);
		$said{$type} = receive($length - 4);
		return \%said if $type eq 'Z';
	}
}

# Arguments and result in text form.
sub call
{
	my ($function, @arguments) = @_;
	my $oid = $node->safe_psql('postgres', "SELECT '$function'::regprocedure::oid");
	my $call = pack('N n n n', $oid, 1, 0, scalar @arguments) . join('', map { defined $_ ? pack('N/a*', $_) : pack('N', 0xffffffff) } @arguments) . pack('n', 0);
	$socket->syswrite('F' . pack('N', 4 + length $call) . $call);
	return answers();
}

my $startup = pack('N', 196608) . "user\0" . $node->safe_psql('postgres', 'SELECT current_user') . "\0database\0postgres\0\0";
$socket->syswrite(pack('N', 4 + length $startup) . $startup);
ok(!exists answers()->{E}, 'connected');

my $said = call('outbox.metrics_text(text)', 'openmetrics');
ok(!exists $said->{E}, 'metrics_text()') or diag($said->{E});
like(substr($said->{V}, 4), qr/# EOF$/, 'and all of it');
$said = call('outbox.retry(uuid, text, text, jsonb, jsonb, text, bytea)', '00000000-0000-4000-8000-000000000001', (undef) x 6);
like($said->{E}, qr/C22023\0|CP0002\0|C42704\0/, 'retry() of what is not parked: its own error');
unlike($said->{E}, qr/cache lookup/, 'and none of PostgreSQL');
$said = call('outbox.drop_route(text)', 'none');
like($said->{E}, qr/Mroute "none" does not exist\0/, 'drop_route() of none');
$said = call('outbox.drop_route(text)', 'r');
is(substr($said->{V}, 4), '0', 'drop_route()');
$socket->close;
is($node->safe_psql('postgres', 'SELECT count(*) FROM outbox.route'), '0', 'and it is gone');
done_testing();
