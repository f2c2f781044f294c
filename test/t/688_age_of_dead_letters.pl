# Dead letters have one line a minute and route in the server's log: the next ones wait for theirs, and it says how long ago the last
# of them was, as they may have been redriven and delivered by then.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\nlog_min_messages = warning\noutbox.max_payload_size = '4MB'\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'a', on_failure => q('skip'), max_attempts => 1);
$redis->command('CONFIG', 'SET', 'proto-max-bulk-len', '1048576');
sub lines { return slurp_file($node->logfile) =~ /WARNING:  outbox: (\d+) events? of route "a" became.*\n.*DETAIL:  (The last error.*?) is/g }

sub die_in_vain
{
	my ($n) = @_;
	$node->safe_psql('postgres', "SELECT outbox.emit_text('order', i::text, 'big', repeat('x', 1200000)) FROM generate_series(1, $n) i");
	return;
}
die_in_vain(1);
ok(wait_until(sub { (() = lines()) == 2 }, 60), 'a dead letter has its line at once');
is(join(' ', lines()), '1 The last error', 'which says no time, as it is now');

die_in_vain(2);
wait_for_value($node, 'SELECT count(*) FROM outbox.dead_letter', 3);
$redis->command('CONFIG', 'SET', 'proto-max-bulk-len', '16777216');
$node->safe_psql('postgres', q(CALL outbox.redrive('a', dry_run => false)));
ok(wait_idle($node), 'two more are redriven at once');
is($node->safe_psql('postgres', q(SELECT count(*) FROM outbox.dead_letter)), 0, 'and delivered');
ok(wait_until(sub { (() = lines()) == 4 }, 120), 'they have a line a minute later');
like(join(' ', lines()), qr/^1 The last error 2 The last error, [1-9][\d.]+ s before this line,$/, 'which says how old it is');
no_server_crashed($node);
done_testing();
