# A session that is woken all the time (here by NOTIFY: it listens) pauses for as long as any other: outbox.forget() has its patience
# with who reads a page, half a minute, measured in pauses.
# matrix: M1
use strict;
use warnings;

use IPC::Run ();
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.lone_emit = allow\noutbox.workers = 0\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
sql(q(SELECT count(outbox.emit('person', 'one', 'e', '{}')) FROM generate_series(1, 20) i));
my $table = sql(q(SELECT tableoid::regclass FROM outbox_internal.log LIMIT 1));
my $reader = $node->background_psql('postgres', on_error_stop => 1);
$reader->query_safe('BEGIN');
$reader->query_safe("DECLARE c CURSOR FOR SELECT ctid FROM $table");
$reader->query_safe('FETCH 1 FROM c');

my $out = '';
my $call = IPC::Run::start([ 'psql', '-XAtqd', $node->connstr('postgres'), '-c', 'LISTEN tick', '-c', q(CALL outbox.forget('person', 'one', dry_run => false)) ],
	'<', \undef, '>&', \$out, IPC::Run::timeout(180));
my $waits = q(SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'CALL outbox.forget%' AND state = 'active' AND wait_event_type = 'Extension');
ok(wait_for_value($node, $waits, 1), 'it waits for the page');
# Far more often than the pauses of half a minute are.
sql(q(SET synchronous_commit = off; DO $do$ DECLARE began timestamptz := clock_timestamp(); BEGIN
	WHILE clock_timestamp() < began + interval '6 s' LOOP PERFORM pg_notify('tick', clock_timestamp()::text); COMMIT; END LOOP; END $do$));
is(sql(q(SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'CALL outbox.forget%' AND state = 'active')), '1', 'woken thousands of times, it waits still');
$reader->query_safe('COMMIT');
$reader->quit;
$call->finish;
like($out, qr/^20\|0$/m, 'and erases when it can');
no_server_crashed($node);
done_testing();
