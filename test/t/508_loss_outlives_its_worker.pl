# matrix: E-5
# A Redis has lost what it had, and the worker that found out ends: doctor() tells for an hour all the same, also where
# nothing is sent again.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node();

sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub told { return sql(q(SELECT status, detail, hint FROM outbox.doctor() WHERE "check" = 'destination' AND status <> 'ok')) }
sub relays { return sql(q(SELECT count(*) FROM outbox.worker WHERE kind = 'relay' AND lanes > 0)) }
my %redis = map { $_ => Outbox::Redis->start } qw(warned resent);
redis_route($node, $redis{warned}, 'warned', topic => q('s'), aggregate_types => q('{warned}'), lanes => 2, server_options => q(, on_lost_writes 'warn'));
redis_route($node, $redis{resent}, 'resent', topic => q('s'), aggregate_types => q('{resent}'));

sub loses
{
	my ($route) = @_;
	sql(qq{SELECT outbox.emit('$route', (i % 10)::text, 'x', '{}') FROM generate_series(1, 100) i});
	ok(wait_until(sub { $redis{$route}->xlen('s') == 100 }, 60) && wait_idle($node), "$route: all arrives, and is saved");
	$redis{$route}->command('DEL', 's');
	$redis{$route}->restart;
	ok(wait_for_value($node, "SELECT count(*) > 0 FROM outbox.audit WHERE action IN ('rewind', 'lost writes') AND route = '$route'", 't', 60), "$route: the loss is found");
	return;
}

is(told(), '', 'all is well');
loses('warned');
ok(wait_until(sub { told() =~ /^warning\|Destination "warned" works, but LOST_WRITES: [^\n]*$/ }, 30), 'doctor() tells of it, once') or diag told();
$node->restart;
ok(wait_until(sub { relays() > 0 && sql(q(SELECT count(*) FROM outbox.destination WHERE state = 'closed')) > 0 }, 60) && wait_idle($node), 'other workers');
is(sql(q(SELECT count(*) FROM outbox.destination WHERE error_code IS NOT NULL)), '0', 'which know nothing of it');
my @told = split /\n/, told();
is(@told, 1, 'doctor() has one row for both lanes') or diag told();
like($told[0], qr/^warning\|Destination "warned" has lost what it had acknowledged, LOST_WRITES: lane \d of route "warned" found it at \d\d:\d\d:\d\d UTC: option on_lost_writes of the destination is warn; outbox\.seek\(\) to .*\|outbox\.audit has what was lost/, 'with what to do');
is(sql('SELECT outbox.doctor_ok()'), 'f', 'all is not well');

loses('resent');
ok(wait_until(sub { $redis{resent}->xlen('s') == 100 }, 60) && wait_idle($node), 'what was lost is sent again');
$node->restart;
ok(wait_until(sub { relays() > 0 && sql(q(SELECT count(*) FROM outbox.destination WHERE state = 'closed')) > 1 }, 60) && wait_idle($node), 'other workers again');
@told = split /\n/, told();
is(@told, 2, 'doctor() tells of both') or diag told();
like($told[0], qr/^warning\|Destination "resent" has lost/, 'also of the one that was sent it again');

# An hour later (what is written there is never changed by anybody else).
sql(q(SET session_replication_role = 'replica'; SET outbox.allow_loss = on; UPDATE outbox.audit SET at = at - interval '61 minutes'));
is(told(), '', 'and nothing after an hour');
no_server_crashed($node);
done_testing();
