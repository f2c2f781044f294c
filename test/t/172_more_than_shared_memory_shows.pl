# More lanes than outbox.max_lanes has places to show: they work, waiting for them is exact, and doctor() does not take
# them for lost. A worker with more destinations than it once could wait for hears from all of them at once.
# matrix: R23
use strict;
use warnings;

use Outbox::Test;
use Test::More;
use Time::HiRes qw(time);

my $destinations = 135;
my $node = new_node(conf => "outbox.max_lanes = 16\noutbox.workers = 2\n");
my $redis = Outbox::Redis->start;

sub sql { return $node->safe_psql('postgres', $_[0]) }

redis_route($node, $redis, 'wide', lanes => 40, event_types => "'{wide}'", topic => "'wide'");
sql("SELECT count(outbox.emit('t', i, 'wide', '{}')) FROM generate_series(1, 400) i");
is(sql("SELECT outbox.wait_until_idle('60 s')"), 't', 'wait_until_idle() knows of lanes that cannot be shown');
is($redis->xlen('wide'), 400, 'and all of them have delivered');
unlike(sql('SELECT string_agg(detail, E\'\n\') FROM outbox.doctor()'), qr/has no relay worker/, 'doctor() does not take them for lost');
like(sql('SELECT string_agg(detail, E\'\n\') FROM outbox.doctor()'), qr/lanes have a relay worker and no place to show/, 'but says why they are not seen');
is(sql('SELECT outbox.doctor_ok()'), 'f', 'and does not say that all is well');
is(sql("SELECT count(*) FROM outbox.lag WHERE state = 'not shown'"), 24, 'nor does outbox.lag say that nobody has them');
is(sql('SELECT count(*) FROM outbox.lag WHERE state = \'unowned\''), 0, 'of any');
sql('ALTER SYSTEM SET outbox.enabled = off');
sql('SELECT pg_reload_conf()');
ok(wait_for_value($node, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox relay'", 0, 30), 'without workers');
sql("SELECT outbox.emit('t', 1, 'wide', '{}')");
is(sql("SELECT outbox.wait_until_idle('1 s')"), 'f', 'it waits');
my $workers = q{SELECT status || ': ' || detail FROM outbox.doctor() WHERE "check" = 'workers'};
is(sql($workers), 'warning: outbox.enabled is off: events are kept, and none is published until that is changed.', 'doctor() warns of it, as of a pause');
sql('ALTER SYSTEM RESET outbox.enabled; ');
sql('SELECT outbox.drop_route(\'wide\')');
is(sql($workers), 'ok: outbox.enabled is off; there is no route, and no relay worker is needed.', 'not where nothing would be published');
sql('ALTER SYSTEM SET outbox.workers = 1');
$node->append_conf('postgresql.conf', "outbox.max_lanes = 256\n");
$node->restart;

foreach my $n (1 .. $destinations)
{
	sql("CREATE SERVER s$n FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}');
		SELECT outbox.create_route('r$n', server => 's$n', event_types => '{e$n}', topic => 's$n')");
}

# Ten events one after the other, until the worker knows of each that it is delivered. Nothing here wakes the worker but
# the commit and the answer.
sub seconds
{
	my ($n) = @_;
	my $at = "SELECT delivered_to FROM outbox.lag WHERE route = 'r$n'";
	sql("SELECT outbox.emit('t', 1, 'e$n', '{}')");
	wait_idle($node);
	my $began = time;
	foreach (1 .. 10)
	{
		my $before = sql($at);
		sql("SELECT outbox.emit('t', 1, 'e$n', '{}')");
		wait_until(sub { sql($at) ne $before }, 30) or die 'not delivered';
	}
	return time - $began;
}
sql("SELECT outbox.emit('t', 1, 'e' || n, '{}') FROM generate_series(1, $destinations) n");
is(sql("SELECT outbox.wait_until_idle('60 s')"), 't', "$destinations destinations of one worker");
my $first = seconds(1);
my $last = seconds($destinations);
diag(sprintf('ten events to the first: %.2f s, to the last: %.2f s', $first, $last));
cmp_ok($last, '<', 1.6 * $first + 1, 'it hears from the last one as soon as from the first');
no_server_crashed($node);
done_testing();
