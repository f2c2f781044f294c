# Postgres goes back behind its destination: a base backup is restored to a point in the past (PITR). What was delivered
# since is sent again under the same ids, byte for byte; what was waiting then is delivered; nothing is passed over. And
# a clone of the files under a name of its own is silent until it is adopted, at the positions that it came with.
# matrix: C3 C4
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Cluster;
use Test::More;

my $redis = Outbox::Redis->start;
my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(has_archiving => 1, allows_streaming => 1);
$primary->append_conf('postgresql.conf', "log_min_messages = info\n");
$primary->start;
$primary->safe_psql('postgres', 'CREATE EXTENSION outbox');
redis_route($primary, $redis, 'redis', topic => q('events'), lanes => 2);

sub emit
{
	my ($node, $from, $to) = @_;
	$node->safe_psql('postgres', "SELECT count(outbox.emit('order', 'k' || i % 7, 'counted', jsonb_build_object('n', i), '{\"by\": \"test\"}'))
		FROM generate_series($from, $to) i");
}

# What one id was seen with: the bytes of every field, and how often.
sub by_id
{
	my (%seen, %bytes);
	foreach my $entry (@{ $redis->entries('events') })
	{
		$seen{ $entry->{id} }++;
		$bytes{ $entry->{id} }{ join '|', map { "$_=$entry->{$_}" } grep { $_ ne '_entry' } sort keys %$entry } = 1;
	}
	return (\%seen, scalar grep { keys %{ $bytes{$_} } > 1 } keys %bytes);
}

sub ids { my ($node, $where) = @_; return split /\n/, $node->safe_psql('postgres', "SELECT id FROM outbox_internal.log WHERE $where ORDER BY created_at") }

# The numbers of a key in the order in which they were first seen.
sub in_order
{
	my (%first, %last, $wrong);
	$wrong = 0;
	foreach my $entry (@{ $redis->entries('events') })
	{
		next if $first{ $entry->{id} }++;
		my ($n) = $entry->{payload} =~ /(\d+)/;
		$wrong++ if $n <= ($last{ $entry->{key} } // 0);
		$last{ $entry->{key} } = $n;
	}
	return $wrong == 0;
}

emit($primary, 1, 100);
ok(wait_idle($primary), 'events are delivered');
$primary->backup('base');
emit($primary, 101, 200);
ok(wait_idle($primary), 'more, after the backup');

# The moment to come back to: a hundred events wait.
$primary->safe_psql('postgres', 'ALTER SYSTEM SET outbox.enabled = off');
$primary->reload;
ok(wait_for_value($primary, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox relay'", '0'), 'workers are off');
emit($primary, 201, 300);
my @waiting = ids($primary, q{(convert_from(payload, 'UTF8')::jsonb ->> 'n')::int > 200});
$primary->safe_psql('postgres', "SELECT pg_create_restore_point('before the mistake')");
$primary->safe_psql('postgres', 'ALTER SYSTEM RESET outbox.enabled');
$primary->reload;
ok(wait_for_value($primary, "SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type = 'outbox relay'", 't'), 'and on');
emit($primary, 301, 400);
ok(wait_idle($primary), 'all of them are delivered');
is($redis->xlen('events'), 400, 'once');
my @undone = ids($primary, q{(convert_from(payload, 'UTF8')::jsonb ->> 'n')::int > 300});
$primary->safe_psql('postgres', 'SELECT pg_switch_wal()');
$primary->stop;

# --- restored to that moment, in the place of the original ---
my $restored = PostgreSQL::Test::Cluster->new('restored');
$restored->init_from_backup($primary, 'base', has_restoring => 1, standby => 0);
$restored->append_conf('postgresql.conf', "archive_mode = off\nrecovery_target_name = 'before the mistake'\nrecovery_target_action = pause\n");
$restored->start;
ok(wait_for_value($restored, 'SELECT pg_get_wal_replay_pause_state()', 'paused'), 'recovery waits at its target');
foreach my $call (q(outbox.emit('order', 1, 'e', '{}')), q(outbox.receive('billing', gen_random_uuid())), q(outbox.wait_until_idle('1 s')))
{
	like(($restored->psql('postgres', "SELECT $call"))[2], qr/HINT:  Recovery is paused at its target: SELECT pg_wal_replay_resume\(\) ends it/, "$call says how to end it");
}
foreach my $view (q(outbox.doctor() WHERE "check" = 'standby'), q(outbox.process))
{
	like($restored->safe_psql('postgres', "SELECT detail FROM $view"), qr/^Recovery is paused at its target: SELECT pg_wal_replay_resume\(\) ends it\. It publishes nothing until then/, "as does $view");
}
$restored->safe_psql('postgres', 'SELECT pg_wal_replay_resume()');
ok(wait_for_value($restored, 'SELECT pg_is_in_recovery()', 'f'), 'a backup is restored to the moment before');
is(scalar(ids($restored, 'true')), 300, 'what came after it is not in the log');
ok(wait_idle($restored), 'it belongs to the same server: what was waiting is delivered, unasked');
my ($seen, $differ) = by_id();
is(scalar(grep { !$seen->{$_} } ids($restored, 'true')), 0, 'no event of its log is missing');
is(scalar(grep { $seen->{$_} < 2 } @waiting), 0, 'what was waiting then was sent again');
is($differ, 0, 'under the same id, byte for byte the same');
is(scalar(grep { $seen->{$_} != 1 } @undone), 0, 'what the restore has undone is with the consumers, once');
emit($restored, 401, 450);
ok(wait_idle($restored), 'new events are delivered');
($seen, $differ) = by_id();
is(scalar(keys %$seen), 450, 'under ids of their own');
is($differ, 0, 'no id has two contents');
ok(in_order(), 'the order of first occurrences holds for every key');
is($restored->safe_psql('postgres', q{SELECT string_agg("check" || ': ' || detail, '; ') FROM outbox.doctor() WHERE status = 'problem'}), '', 'doctor() finds no problem');
$restored->stop;

# --- a clone of the files beside it ---
$redis->command('DEL', 'events');
my $clone = PostgreSQL::Test::Cluster->new('clone');
$clone->init_from_backup($primary, 'base');
$clone->append_conf('postgresql.conf', "archive_mode = off\noutbox.instance = 'clone'\n");
$clone->start;
ok($clone->wait_for_log(qr/outbox publishes nothing from database "[^"]+": it is a copy/), 'a clone with an outbox.instance of its own is silent');
like($clone->safe_psql('postgres', q{SELECT hint FROM outbox.doctor() WHERE "check" = 'identity' AND status = 'problem'}),
	qr/outbox\.adopt\(\)/, 'and doctor() says what can be done');
emit($clone, 101, 110);
is($redis->xlen('events'), 0, 'nothing comes from it');
is($clone->safe_psql('postgres', 'SELECT outbox.adopt(keep_positions => true)'), '0', 'adopted with its positions');
ok(wait_idle($clone), 'it publishes');
is(join(' ', sort { $a <=> $b } map { $_->{payload} =~ /(\d+)/ } @{ $redis->entries('events') }), join(' ', 101 .. 110), 'what had not been delivered, and nothing else');

# --- another, whose lanes start from now ---
$redis->command('DEL', 'events');
my $fresh = PostgreSQL::Test::Cluster->new('fresh');
$fresh->init_from_backup($primary, 'base');
$fresh->append_conf('postgresql.conf', "archive_mode = off\noutbox.instance = 'fresh'\n");
$fresh->start;
emit($fresh, 201, 205);
my $adopter = $fresh->background_psql('postgres', on_error_stop => 1, timeout => 600);
$adopter->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
$adopter->query_safe('SELECT count(*) FROM outbox_internal.log');
emit($fresh, 206, 210);
$adopter->query_safe('SELECT outbox.adopt(keep_positions => false)');
$adopter->query_safe('COMMIT');
$adopter->quit;
emit($fresh, 211, 215);
ok(wait_idle($fresh), 'adopted without its positions, it publishes');
is(join(' ', sort { $a <=> $b } map { $_->{payload} =~ /(\d+)/ } @{ $redis->entries('events') }), join(' ', 211 .. 215), 'what came after, and not what came since the snapshot of the transaction that adopted');
no_server_crashed($_) foreach $primary, $restored, $clone, $fresh;
done_testing();
