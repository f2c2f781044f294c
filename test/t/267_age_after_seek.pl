# What was emitted before a route was there, or before seek() moved it, waits since then: in outbox.lag and in the figures, with a
# worker and without. It is in no latency: that would say how old it is, and not how long it took. What comes later is as ever.
# matrix: M9
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node();
sub sql { return $node->safe_psql('postgres', @_) }
sub figure { my ($name, $route) = @_; return sql("SELECT coalesce(sum(value), 0) FROM outbox.metrics() WHERE name = 'outbox_$name' AND labels ->> 'route' = '$route'") }
sub emit { my ($count) = @_; return sql("SET outbox.lone_emit = allow; SELECT count(outbox.emit_text('a', 'k' || i, 'e', 'x')) FROM generate_series(1, $count) i") }

# The oldest that waits has waited since then at most, as far as outbox.lag and the figures say.
sub waits_since
{
	my ($route, $count, $since, $name) = @_;
	is(sql("SELECT pending || ' ' || (oldest_pending >= '$since') || ' ' || (delay <= clock_timestamp() - '$since'::timestamptz) FROM outbox.lag WHERE route = '$route'"), "$count true true", "$name: outbox.lag");
	ok(wait_for_value($node, "SELECT value FROM outbox.metrics() WHERE name = 'outbox_pending_events' AND labels ->> 'route' = '$route'", $count, 60), 'the figures know what waits');
	is(sql("SELECT value <= extract(epoch FROM clock_timestamp() - '$since'::timestamptz) AND value > 0 FROM outbox.metrics() WHERE name = 'outbox_oldest_pending_age_seconds' AND labels ->> 'route' = '$route'"), 't', 'and since when');
	return;
}

sql('CREATE SERVER one FOREIGN DATA WRAPPER outbox_null; CREATE SERVER other FOREIGN DATA WRAPPER outbox_null');
sql(q(SELECT outbox.create_route('moved', server => 'one')));
emit(100);
ok(wait_idle($node), 'delivered');
is(figure('commit_to_ack_seconds_count', 'moved'), 100, 'and in the histogram');
sql(q(SELECT outbox.pause(server => 'one', reason => 'test'), outbox.pause(server => 'other', reason => 'test')));

my $since = sql('SELECT clock_timestamp()');
sql(q(CALL outbox.seek('moved', '-infinity', dry_run => false)));
sql(q(SELECT outbox.create_route('late', server => 'other', start => 'earliest')));
waits_since('moved', 100, $since, 'after seek()');
waits_since('late', 100, $since, 'of a route that was made later');
sql('ALTER SYSTEM SET outbox.enabled = off; SELECT pg_reload_conf()');
ok(wait_for_value($node, q(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox relay'), '0', 60), 'no worker');
waits_since($_, 100, $since, "$_, without a worker") foreach qw(moved late);
sql('ALTER SYSTEM SET outbox.enabled = on; SELECT pg_reload_conf()');
emit(1);
is(sql("SELECT string_agg(pending || ' ' || (oldest_pending >= '$since'), ', ') FROM outbox.lag"), '101 true, 101 true', 'one more, which is not the oldest');

sql('SELECT outbox.metrics_reset()');
sql(q(SELECT outbox.resume(server => 'one'), outbox.resume(server => 'other')));
ok(wait_idle($node), 'delivered');
foreach my $route (qw(moved late))
{
	is(figure('events_published_total', $route), 101, "$route: all is counted as published");
	is(figure('commit_to_ack_seconds_count', $route), 1, 'one has a latency');
	is(figure('destination_ack_seconds_count', $route), 101, 'all have one of the destination');
	is(sql("SELECT events || ' ' || (p50 < 1000 * extract(epoch FROM clock_timestamp() - '$since'::timestamptz)) FROM outbox.latency WHERE route = '$route' AND period = 'minute'"), '101 true', 'outbox.latency: the rate is of all');
}
emit(10);
ok(wait_idle($node), 'delivered');
is(figure('commit_to_ack_seconds_count', 'moved'), 11, 'what is emitted later is measured');
no_server_crashed($node);
done_testing();
