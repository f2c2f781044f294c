# The library and the extension have different versions: workers wait and say so, events are kept, adopt() is refused, and
# with equal versions again everything goes on, nothing lost and nothing twice. ALTER EXTENSION and DROP EXTENSION that
# are rolled back disturb no session. All of it under load. (Workers that find tables of another version leave at once:
# what they had in flight is sent again.)
# matrix: C7 C8
use strict;
use warnings;

use Outbox::Ledger;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

# With update scripts to a version 0.3, which does not exist, and back.
my $redis = Outbox::Redis->start;
my $node = new_node(conf => stage_with('outbox--0.2--0.3.sql', 'outbox--0.3--0.2.sql'));
Outbox::Ledger::install($node);
redis_route($node, $redis, 'redis', topic => q('ledger'), lanes => 2);
my $load = Outbox::Ledger::start_load($node, seconds => 120, clients => 2, rate => 30);
ok(wait_until(sub { $redis->xlen('ledger') > 500 }), 'events flow');

sub flows
{
	my ($what) = @_;
	my $before = $redis->xlen('ledger');
	return ok(wait_until(sub { $redis->xlen('ledger') > $before + 500 }, 20), $what);
}
my $pids = join ' ', relay_pids($node);

# --- DDL on the extension, in a transaction that stays open for a while and is rolled back ---
foreach my $ddl ("ALTER EXTENSION outbox UPDATE TO '0.3'", 'ALTER EXTENSION outbox DROP FUNCTION outbox.doctor(); DROP FUNCTION outbox.doctor()')
{
	my ($status, undef, $error) = $node->psql('postgres', "BEGIN; SET LOCAL outbox.allow_loss = on; $ddl; SELECT pg_sleep(1); ROLLBACK", on_error_stop => 1);
	is($status, 0, "rolled back: $ddl") or diag $error;
	flows('events flow on');
}
my ($status, undef, $error) = $node->psql('postgres', "BEGIN; SET LOCAL outbox.allow_loss = on; DROP EXTENSION outbox CASCADE; SELECT pg_sleep(1); ROLLBACK", on_error_stop => 1);
is($status, 0, 'rolled back: DROP EXTENSION') or diag $error;
flows('sessions that waited for it go on');
is(join(' ', relay_pids($node)), $pids, 'no relay worker has left for any of them');
my $payloads = $redis->column('ledger', 'payload');
is(scalar(@$payloads), scalar(keys %{ { map { $_ => 1 } @$payloads } }), 'nothing was sent twice');

# --- another version, committed ---
$node->safe_psql('postgres', "ALTER EXTENSION outbox UPDATE TO '0.3'");
ok($node->wait_for_log(qr/outbox publishes nothing: the extension's version "0\.3" is not the library's, "0\.2"/), 'the server log says that nothing is published, and why');
ok(wait_for_value($node, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox relay'", '0'), 'relay workers leave');
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox keeper'"), '1', 'the keeper waits');
like($node->safe_psql('postgres', q{SELECT status || ': ' || detail FROM outbox.doctor() WHERE "check" = 'version'}),
	qr/^problem: The library has version 0\.2, the extension 0\.3; workers wait/, 'doctor() says the same');
is($node->safe_psql('postgres', q{SELECT string_agg(name || ' ' || value, ', ' ORDER BY name) FROM outbox.metrics() WHERE name IN ('outbox_version_mismatch', 'outbox_pending_events', 'outbox_parked_events')}),
	'outbox_version_mismatch 1', 'metrics() as well, and asks no table of the other version');
is($node->safe_psql('postgres', 'SELECT * FROM outbox.version()') =~ /0\.2.*0\.3/s ? 1 : 0, 1, 'version() shows both');
my $sqlstate;
($status, undef, $error) = $node->psql('postgres', "\\set VERBOSITY verbose\nSELECT outbox.adopt()");
like($error, qr/ERROR:  55000: cannot adopt an outbox whose version is not that of the library/, 'adopt() is refused: it would make an end of the positions');
my $waiting = $redis->xlen('ledger');
my $emitted = Outbox::Ledger::total($node);
ok(wait_until(sub { Outbox::Ledger::total($node) > $emitted + 500 }), 'events are emitted');
is($redis->xlen('ledger'), $waiting, 'and kept');
$node->restart;    # ends the load, too
Outbox::Ledger::finish($load, may_fail => 1);
ok($node->wait_for_log(qr/version "0\.3".*version "0\.3"/s), 'after a restart it says so again');
is(scalar(relay_pids($node)), 0, 'and waits');

# --- and equal again ---
$load = Outbox::Ledger::start_load($node, seconds => 120, clients => 1, rate => 20, name => 'again');
$node->safe_psql('postgres', "ALTER EXTENSION outbox UPDATE TO '0.2'");
ok(wait_until(sub { $redis->xlen('ledger') > $waiting }), 'with equal versions again they come back');
flows('and go on');
ok(Outbox::Ledger::end_load($load), 'no session met an error');
ok(wait_idle($node), 'everything is delivered');
Outbox::Ledger::check($node, 'Redis', $redis->column('ledger', 'payload'), duplicates => 1);

# The other way round: an older extension under a newer library.
$node->safe_psql('postgres', "UPDATE pg_extension SET extversion = '0.0' WHERE extname = 'outbox'");
ok($node->wait_for_log(qr/version "0\.0" is not the library's/), 'an older extension is found by the next look, too');
ok(wait_for_value($node, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox relay'", '0'), 'and nothing is published from it');
no_server_crashed($node);
done_testing();
