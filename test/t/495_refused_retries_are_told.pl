# A Redis lets in no more clients than it has, and the connection of events that are due later is one too many: all others arrive. That
# is told once in the log, though each try is refused at once, and that it goes again is told, too; so it is the next time.
# matrix: E-6
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\noutbox.lone_emit = allow\n");
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'r', topic => q('r'), backoff_cap => q('2 s'));
sub emit { my ($key, $due) = @_; return sql(sprintf q(SELECT outbox.emit_text('o', '%s', 'x', 'x'%s)), $key, $due ? q(, deliver_at => clock_timestamp() + interval '0.2 s') : '') }
sub let_in { my ($clients) = @_; return $redis->command('CONFIG', 'SET', 'maxclients', $clients) }
sub connections { return $redis->command('CLIENT', 'LIST') =~ /^id=(\d+) /mg }
my $told = qr/WARNING:  outbox: destination "r" is used, but what is tried again goes by a connection of its own, and that takes nothing: .*max number of clients/;
my $over = qr/LOG:  outbox: what is tried again at destination "r" goes again after (\d+)\.\d s/;
sub lines { my ($line) = @_; return scalar(() = slurp_file($node->logfile) =~ /$line/g) }

emit('first');
ok(wait_idle($node), 'the lanes are connected');
my %known = map { $_ => 1 } connections();
foreach my $time (1 .. 2)
{
	let_in(scalar keys %known);
	$redis->command('CLIENT', 'KILL', 'ID', $_) foreach grep { !$known{$_} } connections();
	emit('later', 1);
	ok(wait_until(sub { lines($told) == $time }, 120), 'it is told that what is due goes no way');
	is(sql(q(SELECT state FROM outbox.destination)), 'closed', 'the destination is used');
	my $before = $redis->xlen('r');
	emit("now $time");
	ok(wait_until(sub { $redis->xlen('r') == $before + 1 }, 60), 'all else arrives');
	is(lines($over), $time - 1, 'nobody says that it goes again');
	let_in(1_000);
	ok(wait_idle($node, 120), 'then it goes');
	ok(wait_until(sub { lines($over) == $time }, 60), 'which is told');
	is(lines($told), $time, 'and nothing twice');
	my @lasted = slurp_file($node->logfile) =~ /$over/g;
	cmp_ok($lasted[-1] // 0, '>=', 25, 'with how long that was, from its beginning');
}
no_server_crashed($node);
done_testing();
