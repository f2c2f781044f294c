# Delayed events that are due and do not go, as their route is paused or its destination is down, are a drain of that many, which
# says what is in the way, and is over when they have gone; before they are due there is none.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.lone_emit = allow\noutbox.workers = 1\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'down', topic => q('s'));
sub sql { return $node->safe_psql('postgres', $_[0]) }
sql(q(CREATE SERVER nowhere FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('paused', server => 'nowhere')));
sql(q(SELECT outbox.emit_text('a', 'k', 'e', 'x')));
ok(wait_idle($node), 'delivered');
sql(q(SELECT count(outbox.emit_text('a', 'k' || n, 'e', 'x', deliver_at => clock_timestamp() + interval '20 s')) FROM generate_series(1, 20) n));
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', '40', 60), 'events of later are parked');
sql(q(SELECT outbox.pause('paused', reason => 'test')));
$redis->stop;
my $drains = q(SELECT string_agg(concat_ws(' ', route, phase, done, 'of', total), ', ' ORDER BY route) FROM outbox.pg_stat_progress_outbox WHERE command = 'drain');
is(sql("SELECT CASE WHEN min(due_at) > clock_timestamp() THEN ($drains) END FROM outbox_internal.parked"), '', 'no drain before they are due');
ok(wait_until(sub { sql('SELECT sum(overdue) FROM outbox.lag') eq '40' }, 90), 'they are due');
ok(wait_for_value($node, $drains, 'down waits 0 of 20, paused waits 0 of 20', 30), 'a drain of each route') or diag(sql('SELECT * FROM outbox.pg_stat_progress_outbox'));
is(sql(q(SELECT p.since >= (SELECT min(e.due_at) FROM outbox_internal.parked e) AND p.since < clock_timestamp() FROM outbox.pg_stat_progress_outbox p WHERE route = 'paused')), 't', 'since they are due');
like(sql(q(SELECT hint FROM outbox.pg_stat_progress_outbox WHERE route = 'paused')), qr/^paused: test\./, 'what is in the way: a pause');
ok(wait_until(sub { sql(q(SELECT hint FROM outbox.pg_stat_progress_outbox WHERE route = 'down')) =~ /refused|UNREACHABLE|connect/i }, 60), 'or the destination') or diag(sql('SELECT * FROM outbox.pg_stat_progress_outbox'));
is(sql(q(SELECT count(rate) + count(time_left) FROM outbox.pg_stat_progress_outbox)), '0', 'nothing is foreseen');

$redis->run('start', $redis->{dir}, $redis->{port});
sql(q(SELECT outbox.resume('paused')));
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', '0', 90), 'they go');
ok(wait_for_value($node, 'SELECT count(*) FROM outbox.pg_stat_progress_outbox', '0', 60), 'and nothing is under way');
no_server_crashed($node);
$node->stop;
done_testing();
