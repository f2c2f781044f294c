# What figures and views say of an outage: since when it lasts, over retries and a restart of the server; which events may arrive
# twice (none of those that no connection was there for); and rates of a server that is young.
# matrix: M1
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node();
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'shop', topic => q('shop'));
sub sql { return $node->safe_psql('postgres', @_) }
sub figure { my ($name) = @_; return sql("SELECT coalesce(sum(value), 0) FROM outbox.metrics() WHERE name = 'outbox_$name'") }
sub since { return sql(q(SELECT since FROM outbox.destination WHERE state <> 'closed')) }
sub emit { my ($n) = @_; return sql("SELECT count(outbox.emit_text('order', i::text, 'a.b', 'x')) FROM generate_series(1, $n) i") }

sql(q(SELECT outbox.create_route(r, server => 'shop', aggregate_types => '{other}', topic => 'shop') FROM unnest('{second,third}'::text[]) r));
emit(50);
ok(wait_idle($node), 'delivered');

# --- a server that is younger than an hour ---
is(sql(q(SELECT l.rate > 50 / (extract(epoch FROM clock_timestamp()) - m.value + 2) AND l.rate <= 50
	FROM outbox.latency l, outbox.metrics() m WHERE l.route = 'shop' AND l.period = 'hour' AND m.name = 'outbox_stats_reset_timestamp_seconds')), 't',
	'the rate of the last hour is of the time that there was');

# --- the destination refuses connections ---
is(figure('possible_duplicates_total'), 0, 'nothing may arrive twice');
$redis->stop;
emit(40);
sql(q(SELECT outbox.emit_text('other', 'k', 'a.b', 'x')));
ok(wait_until(sub { since() ne '' }, 60), 'the destination is in trouble');
# One of them has lost its connection, the others got none: whoever met which, and until when, differs.
is(sql(q(SELECT count(*) FROM outbox.doctor() WHERE "check" = 'lane' AND status <> 'ok')), '1', 'of which doctor() has one row');
ok(wait_for_value($node, q(SELECT count(*) FROM outbox.doctor() WHERE "check" = 'lane' AND status <> 'ok'
	AND detail LIKE '3 lanes of 3 routes to "shop" (such as lane 0 of route "%"): destination trouble, CONNECT%'), '1', 60), 'and none for each route');
my $began = since();
my $tried = figure('publish_attempts_total');
ok(wait_until(sub { figure('publish_attempts_total') > $tried + 30 }, 120), 'it is tried again and again');
ok(wait_until(sub { since() ne '' }, 60), 'in trouble');
is(since(), $began, 'since the first failure, not the last try');
is(figure('possible_duplicates_total'), 0, 'what no connection was there for arrives once');
cmp_ok(figure('publish_retries_total'), '>', 0, 'though it was tried more than once');

# --- the server is restarted meanwhile ---
$node->restart;
ok(wait_until(sub { since() ne '' }, 60), 'after a restart it is in trouble again');
is(since(), $began, 'since the same time');
sql('SELECT outbox.metrics_reset()');
ok(wait_until(sub { since() eq $began }, 60), 'counters begin at zero, the outage does not');

# --- it is over ---
$redis->restart;
ok(wait_idle($node), 'delivered');
ok(wait_until(sub { sql(q(SELECT state FROM outbox.destination)) eq 'closed' }, 60), 'it is over');
is(sql("SELECT since > '$began' FROM outbox.destination"), 't', 'since a moment ago');
my (%seen, $repeats);
$seen{$_}++ and $repeats++ foreach @{ $redis->column('shop', 'id', 1000) };
is(scalar(keys %seen), 91, 'each came');    # one of them by all three routes
cmp_ok(($repeats // 0) - 2, '<=', figure('possible_duplicates_total'), 'and no more of them twice than the figure says');
$redis->stop;
emit(1);
ok(wait_until(sub { since() ne '' }, 60), 'another outage');
is(sql("SELECT since > '$began' FROM outbox.destination"), 't', 'has a beginning of its own');
$redis->restart;
ok(wait_idle($node), 'delivered');

# --- a sink that dies with everything in flight may have written it ---
$redis->pause;
my $before = figure('possible_duplicates_total');
emit(100);
ok(wait_until(sub { figure('inflight_events') >= 100 }, 60), 'all is in flight');
kill KILL => $_ foreach sink_pids($node);
ok(wait_until(sub { figure('possible_duplicates_total') >= $before + 100 }, 60), 'what was sent may arrive twice');
$redis->cont;
ok(wait_idle($node), 'delivered');
no_server_crashed($node);
done_testing();
