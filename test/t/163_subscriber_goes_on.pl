# A subscriber to FOR ALL TABLES whose own outbox was never used goes on at the publisher's next midnights: its keeper makes
# the day tables, although nothing is published from there. What came is kept apart; after an upgrade by logical
# replication adopt() sends it.
# matrix: C12 R16
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $redis = Outbox::Redis->start;
my $conf = "wal_level = logical\nmax_wal_senders = 10\nmax_replication_slots = 10\nmax_worker_processes = 24\nwal_retrieve_retry_interval = 200ms\n";
my $publisher = new_node(name => 'publisher', conf => $conf);
my $subscriber = new_node(name => 'subscriber', conf => $conf, extension => 0);
redis_route($publisher, $redis, 'redis', topic => q('publisher'));
$publisher->safe_psql('postgres', 'CREATE TABLE orders (id int PRIMARY KEY); CREATE PUBLICATION everything FOR ALL TABLES');
sub order
{
	my ($id) = @_;
	return $publisher->safe_psql('postgres', qq{BEGIN; INSERT INTO orders VALUES ($id); SELECT outbox.emit('order', $id, 'ordered', '{"n": $id}'); COMMIT});
}
order(1);
ok(wait_idle($publisher), 'the publisher publishes');
ok(wait_for_value($publisher, q{SELECT count(*) >= 4 FROM pg_inherits WHERE inhparent = 'outbox_internal.log'::regclass}, 't'), 'and has days ahead');
my $schema = $publisher->basedir . '/schema.sql';
$publisher->command_ok([ 'pg_dump', '-s', '-f', $schema, '-d', $publisher->connstr('postgres') ], 'its schema is dumped');
$subscriber->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', $schema, '-d', $subscriber->connstr('postgres') ], 'and restored');
my $subscribed = q{SELECT "check" || ' ' || status FROM outbox.doctor() WHERE "check" = 'subscriptions'};
is($subscriber->safe_psql('postgres', $subscribed), 'subscriptions ok', 'without a subscription that is no problem');
is($subscriber->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'outbox keeper'}), '0', 'and no keeper runs');
$subscriber->safe_psql('postgres', 'CREATE SUBSCRIPTION everything CONNECTION ' . sql_literal($publisher->connstr('postgres')) . ' PUBLICATION everything');
ok(wait_for_value($subscriber, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox keeper'}, '1'), 'a keeper comes with the subscription');
ok(wait_for_value($subscriber, "SELECT count(*) = 0 FROM pg_subscription_rel WHERE srsubstate <> 'r'", 't'), 'all tables are copied');
is($subscriber->safe_psql('postgres', $subscribed), 'subscriptions ok', 'doctor() says that all is well');
is($subscriber->safe_psql('postgres', q{BEGIN; SET LOCAL outbox.allow_loss = on; SELECT 'DROP TABLE ' || max(inhrelid::regclass::text) FROM pg_inherits WHERE inhparent = 'outbox_internal.tick'::regclass
	AND right(inhrelid::regclass::text, 8) = to_char(now() AT TIME ZONE 'UTC' + interval '1 day', 'YYYYMMDD') \gexec
	SELECT status FROM outbox.doctor() WHERE "check" = 'subscriptions'; ROLLBACK}), 'problem', 'and that it is not where tomorrow is missing');
like($publisher->safe_psql('postgres', q{SELECT hint FROM outbox.doctor() WHERE "check" = 'publications'}), qr/preloaded/, 'on the publisher it says what subscribers need');

# --- the next midnights: two, and five more at once ---
my $day = 86_400_000_000;
foreach my $days (1, 2, 7)
{
	Outbox::Faults::shift_clock($days * $day);
	order($days * 10);
	order($days * 10 + 1);
	ok(wait_idle($publisher), "day $days: the publisher publishes");
	$_->safe_psql('postgres', 'SELECT pg_reload_conf()') foreach $publisher, $subscriber;
	ok(wait_for_value($subscriber, 'SELECT max(id) FROM orders', $days * 10 + 1), "day $days: the subscriber follows");
}
is($subscriber->safe_psql('postgres', 'SELECT count(*) FROM orders'), '7', 'nothing is missing');
is($subscriber->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox relay'}), '0', 'nothing is published from there');
is($subscriber->safe_psql('postgres', q{SELECT (SELECT count(*) FROM outbox_internal.identity) || ' ' || (SELECT count(*) FROM outbox_internal.log)}), '0 0', 'its outbox is as unused as before');

# --- all events, whatever the day: by the root ---
$publisher->safe_psql('postgres', 'ALTER PUBLICATION everything SET (publish_via_partition_root = true)');
$subscriber->safe_psql('postgres', 'ALTER SUBSCRIPTION everything REFRESH PUBLICATION');
ok(wait_for_value($subscriber, "SELECT count(*) = 0 FROM pg_subscription_rel WHERE srsubstate NOT IN ('r', 's')", 't'), 'published by the root of its partitions');
ok(wait_for_value($subscriber, q{SELECT count(DISTINCT id) FROM outbox_internal.foreign_event}, '7'), 'the whole log comes');
order(80);
Outbox::Faults::shift_clock(8 * $day);
order(81);
ok(wait_idle($publisher), 'day 8: the publisher publishes');
ok(wait_for_value($subscriber, q{SELECT count(DISTINCT id) FROM outbox_internal.foreign_event}, '9'), 'and each event, of any day');
is($subscriber->safe_psql('postgres', q{SELECT bool_and(subscribed) FROM outbox_internal.foreign_event}), 't', 'they are known for what they are');

# --- the subscriber takes over ---
$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION everything');
redis_route($subscriber, $redis, 'redis', topic => q('subscriber')) if $subscriber->safe_psql('postgres', q{SELECT count(*) FROM pg_foreign_server}) eq '0';
$subscriber->safe_psql('postgres', q{SELECT outbox.create_route('redis', server => 'redis', topic => 'subscriber')}) if $subscriber->safe_psql('postgres', q{SELECT count(*) FROM outbox.route}) eq '0';
cmp_ok($subscriber->safe_psql('postgres', 'SELECT count(*) FROM outbox_internal.foreign_event'), '>', 9, 'some came twice, as the log was copied anew');
is($subscriber->safe_psql('postgres', 'SELECT outbox.adopt()'), 9, 'adopted, each is sent once');
ok(wait_idle($subscriber), 'and works');
is(join(' ', sort map { $_->{id} } @{ $redis->entries('subscriber') }), join(' ', sort map { $_->{id} } @{ $redis->entries('publisher') }), 'under the same ids');
no_server_crashed($_) foreach $publisher, $subscriber;
done_testing();
