# A trigger of outbox that is switched off (pg_restore --disable-triggers): doctor() says which one, and how it is on again. In a database where
# consumers alone are no keeper comes, preloaded or not, so it is the statement; where the outbox is in use the keeper does it, or adopt().
# matrix: C18
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(extension => 0, conf => "outbox.workers = 1\noutbox.lone_emit = allow\n");
my $database = 'consumers';
sub sql { return $node->safe_psql($database, "SET client_min_messages = error; $_[0]") }
sub said { return sql(q{SELECT string_agg(concat_ws(' / ', status, detail, hint), E'\n') FROM outbox.doctor() WHERE "check" = 'guards'}) }
my $fine = 'ok / The triggers that keep rows of other servers apart are on.';
my $wrong = q{SELECT count(*) FROM outbox_internal.wrong_guard};
sub switch_off { sql("SET outbox.allow_loss = on; ALTER TABLE outbox_internal.$_") foreach @_ }
sub preload
{
	$node->append_conf('postgresql.conf', "shared_preload_libraries = '$_[0]'\n");
	$node->restart;
}

$node->safe_psql('postgres', "CREATE DATABASE $_") foreach qw(consumers emitters);
sql(q{CREATE EXTENSION outbox; SELECT outbox.receive('c', gen_random_uuid())});
foreach my $library ('outbox', '')
{
	preload($library);
	switch_off('inbox_stream DISABLE TRIGGER no_forgetting');
	is(said(), 'problem / Trigger no_forgetting of outbox_internal.inbox_stream was switched off or changed, as pg_restore --disable-triggers does it, and does not fire as it should.'
		. ' / ALTER TABLE outbox_internal.inbox_stream ENABLE ALWAYS TRIGGER no_forgetting;', "preloaded '$library': which one, and what to type");
	# What is switched on again as any trigger is, outbox has on as it was where its library is loaded; what is not is told of.
	switch_off(map { "$_ DISABLE TRIGGER ALL" } qw(inbox_day_07 inbox_kept receive_right identity log_spare));
	switch_off(map { "$_ ENABLE TRIGGER ALL" } qw(inbox_day_07 receive_right log_spare));
	my $said = said();
	like($said, qr/\nproblem \/ Trigger no_forgetting of outbox_internal\.inbox_(?:kept and 1|day_07 and 2) more was/, 'those of one name together');
	like($said, qr/^problem \/ Trigger log_guard of outbox_internal\.log_spare was .* rows of other servers get into the log\. \/ ALTER TABLE/, 'that of the log first');
	like($said, qr/ALTER TABLE outbox_internal\.inbox_kept ENABLE REPLICA TRIGGER ignore_replicated;/, 'one that fires for logical replication alone');
	unlike($said, qr/keeper|adopt|too\./, 'nobody else does it here');
	sql($_) foreach map { m{.* / (.*)} ? $1 : () } split /\n/, $said;
	is(sql($wrong), '0', 'what is typed does it');
	is(said(), $fine, 'and doctor() is content');
}

# Where events are emitted, and nothing is preloaded.
$database = 'emitters';
sql(q{CREATE EXTENSION outbox; SELECT outbox.emit('t', 1, 'own', '{}')});
my $day = sql('SELECT DISTINCT tableoid::regclass FROM outbox_internal.log') =~ s/outbox_internal\.//r;
sub load { return sql("BEGIN; ALTER TABLE outbox_internal.$day DISABLE TRIGGER USER; INSERT INTO outbox_internal.$day (created_at, id, xid, aggregate_type, aggregate_id, event_type, payload)
	SELECT clock_timestamp(), gen_random_uuid(), '700', 'loaded', 'k', 'loaded', '1'; SET outbox.allow_loss = on; ALTER TABLE outbox_internal.inbox_stream DISABLE TRIGGER no_forgetting;
	SELECT concat_ws(' / ', status, detail, hint) FROM outbox.doctor() WHERE \"check\" = 'guards'; COMMIT") }
my $said = load();
like($said, qr/^problem \/ Trigger log_guard of outbox_internal\.$day .* \/ SELECT outbox\.adopt\(\) mends it, and moves what came past it to outbox_internal\.foreign_event\.$/m, 'without a keeper: who moves rows');
like($said, qr/ \/ ALTER TABLE outbox_internal\.inbox_stream ENABLE ALWAYS TRIGGER no_forgetting;$/m, 'of the others what to type');
sql('SELECT outbox.adopt()');
is(sql($wrong), '0', 'adopt() has them all on');
is(sql(q{SELECT count(*) FROM outbox_internal.log WHERE event_type = 'own'}), '1', 'what was emitted is there');

preload('outbox');
$said = load();
like($said, qr/^problem \/ Trigger log_guard .* \/ The keeper mends it within a minute, and moves what came past it to outbox_internal\.foreign_event\.$/m, 'the keeper does it');
like($said, qr/^problem \/ Trigger no_forgetting .* \/ The keeper mends it within a minute\.$/m, 'of the inbox, too');
sql('SELECT pg_reload_conf()');
ok(wait_for_value_in($wrong), 'and so it is');
is(said(), $fine, 'all is well');

sub wait_for_value_in { my ($query) = @_; return wait_until(sub { sql($query) eq '0' }) }
done_testing();
