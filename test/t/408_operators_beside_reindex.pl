# REINDEX TABLE takes a table in a lock that readers do not wait for, and then one index after the other. A function that
# read the table through an index and came to write to it only then waited for REINDEX, which waited for it: what is to be
# written to is locked for that first.
# matrix: C8
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node();

sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }

sql(q{
	CREATE ROLE app;
	CREATE ROLE other;
	CREATE SERVER unused FOREIGN DATA WRAPPER outbox_null;
	CREATE SERVER nowhere FOREIGN DATA WRAPPER outbox_null;
	BEGIN;
	SELECT outbox.create_route('one', server => 'nowhere', aggregate_types => '{o}');
	SELECT outbox.pause('one', reason => 'what is parked stays so');
	COMMIT;
	SELECT outbox.pause('one', aggregate_type => 'o', aggregate_id => 'k', reason => 'to be resumed');
	SELECT outbox.pause(server => 'unused', reason => 'goes with it');
	SELECT outbox.grant_emit('other', '{o*}'), outbox.grant_receive('other', '{o*}'), outbox.grant_operate('other');
	SET outbox.lone_emit = allow;
	SELECT outbox.emit('o', 'in the log', 'e', '{}');
	INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, aggregate_type, aggregate_id, event_type, payload, topic, attempts, error_class, error_code, error_message, failed_at)
	SELECT r.id, 0, now(), '00000000-0000-4000-8000-000000000001', 'o', 'k', 'e', '{}', 't', 1, 'message', 'X', 'x', now() FROM outbox.route r;
	INSERT INTO outbox.replay (who, route, to_route, filter, from_time, to_time, matched)
	VALUES ('me', 'one', 'one', '{}', now() - interval '1 hour', now(), 0)});
my $event = q('00000000-0000-4000-8000-000000000001');
my $replay = sql('SELECT number FROM outbox.replay');

my @rights = qw(outbox_internal.receive_right outbox.audit);

my $locker = $node->background_psql('postgres', on_error_stop => 1, timeout => 600);
foreach my $case (
	[ q(SELECT outbox.drop_route('one')), qw(outbox.route outbox_internal.parked outbox_internal.lane) ],
	[ q(SELECT outbox.alter_route('one', topic => 'other')), qw(outbox.route outbox_internal.parked) ],
	[ "SELECT outbox.retry($event)", 'outbox_internal.parked' ],
	[ "SELECT outbox.skip($event, reason => 'test')", 'outbox_internal.parked' ],
	[ "SELECT outbox.discard($event, reason => 'test')", 'outbox_internal.parked' ],
	[ q(CALL outbox.redrive('one', dry_run => false)), 'outbox_internal.parked' ],
	[ q(CALL outbox.discard_dead_letters('one', reason => 'test', dry_run => false)), 'outbox_internal.parked' ],
	[ q(SELECT outbox.resume('one', aggregate_type => 'o', aggregate_id => 'k')), 'outbox_internal.parked' ],
	[ "SELECT outbox.cancel_replay($replay)", qw(outbox.replay outbox_internal.parked) ],
	[ "CALL outbox.replay(number => $replay, dry_run => false)", 'outbox.replay' ],
	[ q(CALL outbox.forget('o', 'k', undelivered => true, dry_run => false)), 'outbox_internal.parked' ],
	[ q(CALL outbox.seek('one', 'infinity', dry_run => false)), qw(outbox.route outbox_internal.lane) ],
	[ q(CALL outbox.replay(since => now() - interval '1 hour', route => 'one', dry_run => false)), 'outbox.audit' ],
	[ q(SELECT outbox.grant_emit('app', '{o*}')), @rights ],
	[ q(SELECT outbox.revoke_emit('other')), @rights ],
	[ q(SELECT outbox.grant_receive('app', '{o*}')), @rights ],
	[ q(SELECT outbox.revoke_receive('other')), @rights ],
	[ q(SELECT outbox.grant_operate('app')), 'outbox.audit' ],
	[ q(SELECT outbox.revoke_operate('other')), 'outbox.audit' ],
	[ q(ALTER ROLE other RENAME TO another), qw(outbox_internal.emit_right outbox_internal.receive_right) ],
	[ q(DROP SERVER unused), 'outbox.pause' ],
	[ q(CALL outbox.forget('o', 'in the log', undelivered => true, dry_run => false)), 'outbox_internal.outcome' ])
{
	my ($call, @tables) = @$case;
	foreach my $table (@tables)
	{
		$locker->query_safe("BEGIN; LOCK TABLE $table IN SHARE MODE");
		my $caller = $node->background_psql('postgres', on_error_stop => 0, timeout => 600);
		my $pid = $caller->query_safe('SELECT pg_backend_pid()');
		$caller->{stdin} .= "$call;\n";
		$caller->{run}->pump_nb;
		ok(wait_for_value($node, "SELECT mode FROM pg_locks WHERE pid = $pid AND NOT granted AND relation = '$table'::regclass", 'RowExclusiveLock', 60), "$call waits for $table");
		is(sql("SELECT string_agg(relation::regclass::text, ' ') FROM pg_locks WHERE pid = $pid AND relation IN (SELECT indexrelid FROM pg_index WHERE indrelid = '$table'::regclass OR indrelid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = '$table'::regclass))"),
			'', 'and has none of its indexes');
		sql("SELECT pg_terminate_backend($pid, 20000)");    # it has changed nothing
		$locker->query_safe('ROLLBACK');
	}
}
$locker->quit;

# --- and what it is about ---
sql('REINDEX TABLE outbox_internal.parked');
is(sql(q(SELECT outbox.drop_route('one'))), '2', 'a route is dropped');
done_testing();
