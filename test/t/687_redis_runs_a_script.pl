# outbox.test_server(), which doctor() names, and a Redis that runs a script without end: what to do.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node();
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub server
{
	my ($name, $redis) = @_;
	return sql("CREATE SERVER $name FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}')");
}
sub tried { my ($server) = @_; return sql("SELECT concat_ws('|', error_code, detail, hint) FROM outbox.test_server('$server', timeout => '60 s') WHERE NOT ok") }

my $redis = Outbox::Redis->start(conf => ['lua-time-limit 50']);
server('busy', $redis);
my $other = $redis->connect_to;
$other->command('PING');
my @eval = ('EVAL', 'while true do end', 0);
print { $other->{socket} } '*' . @eval . "\r\n" . join '', map { '$' . length($_) . "\r\n$_\r\n" } @eval;
ok(wait_until(sub { !eval { $redis->command('PING') } && $@ =~ /BUSY/ }, 60), 'a script runs');
my ($code, $detail, $hint) = split /\|/, tried('busy');
is($code, 'BUSY', "it is busy: $detail");
like($hint, qr{SCRIPT KILL.*SLOWLOG GET}, 'how to end it, and to know which one it was');
$redis->command('SCRIPT', 'KILL');
is(tried('busy'), '', 'it has ended');

no_server_crashed($node);
done_testing();
