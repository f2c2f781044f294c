# outbox.events_of() where the positions of lanes say at which transaction to begin: nothing is left out of what was emitted since then,
# by transactions that began before and committed after, and nothing older comes along.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node();
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub types_since { my ($since) = @_; return join ' ', split /\n/, sql("SELECT event_type FROM outbox.events_of('order', '1', '$since')") }
sql(q{SET outbox.lone_emit = allow; CREATE TABLE other (a int); CREATE SERVER nowhere FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('all', 'nowhere')});
my @open = map { $node->background_psql('postgres', timeout => 600) } 1 .. 2;
$_->query_safe('SET outbox.lone_emit = allow; BEGIN; INSERT INTO other VALUES (1)') foreach @open;
$open[0]->query_safe(q{SELECT outbox.emit('order', 1, 'before', '{}')});
# A position that knows of both as open.
sql(q{SET outbox.lone_emit = allow; SELECT outbox.emit('order', 1, 'old', '{}')});
is(sql(q{SELECT outbox.wait_until_idle('60 s')}), 't', 'what is committed is delivered');
ok(wait_for_value($node, q{SELECT count(*) > 0 FROM outbox_internal.progress p WHERE (SELECT count(*) FROM pg_snapshot_xip(p.window_from)) = 2}, 't', 60), 'a position is known while two transactions are open');
# The clock of events may be ahead of the wall clock.
my $since = sql(q{SELECT greatest(clock_timestamp(), max(p.at), max(l.created_at)) FROM outbox_internal.progress p, outbox_internal.log l});
my $emit = q{SELECT outbox.emit('order', 1, '%s', '{}') FROM (SELECT pg_sleep(greatest(0, extract(epoch FROM '%s'::timestamptz - clock_timestamp())))) s};
sql('SET outbox.lone_emit = allow; ' . sprintf $emit, 'new', $since);
$open[0]->query_safe(sprintf $emit, 'late', $since);
$open[1]->query_safe(sprintf $emit, 'later', $since);
is(types_since($since), 'new', 'what is not committed is not there');
$_->query_safe('COMMIT') foreach @open;
is(types_since($since), 'later late new', 'what transactions emit that were open is not left out');
is(types_since('-infinity'), 'later late new old before', 'and of the whole log it is the same');
# The index is what it begins by: most of the table is not read.
sql(q{SET outbox.lone_emit = allow; SELECT outbox.emit_many('filler', NULL, 'e', array_agg('{}'::jsonb)) FROM generate_series(1, 20000)});
is(sql(q{SELECT outbox.wait_until_idle('60 s')}), 't', 'idle again');
my $last = sql(q{SELECT max(created_at) FROM outbox_internal.log});
ok(wait_for_value($node, "SELECT count(*) > 0 FROM outbox_internal.progress WHERE at > '$last'", 't', 60), 'a position behind them is known');
sql(q{SET outbox.lone_emit = allow; SELECT outbox.emit('order', 1, 'newest', '{}')});
my $day = sql(q{SELECT tableoid::regclass FROM outbox_internal.log LIMIT 1});
my $newest = sql(q{SELECT greatest(max(p.at), max(l.created_at) FILTER (WHERE l.aggregate_type = 'filler')) FROM outbox_internal.progress p, outbox_internal.log l WHERE p.at < (SELECT max(created_at) FROM outbox_internal.log)});
is(sql("BEGIN; SELECT event_type FROM outbox.events_of('order', '1', '$newest'); "
	  . "SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) < 10000 FROM pg_stat_xact_all_tables WHERE relid = '$day'::regclass; COMMIT"), "newest\nt", 'the newest one, and the fillers are not read for it');
no_server_crashed($node);
done_testing();
