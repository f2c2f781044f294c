# A session, or a database, whose tables are to have another access method than heap: those of the extension are heap tables all the
# same, made or updated, and what the session makes after it in the same transaction is not. A spare table that was altered is told of
# with words that mend it.
# matrix: G2 R26
use strict;
use warnings;

use Outbox::Test;
use Test::More;

# The launcher has the only slot there is, so no day gets a table, and events go to the spare one.
my $node = new_node(extension => 0, conf => stage_with('outbox--0.1.sql') . "max_worker_processes = 1\nmax_logical_replication_workers = 0\n");
my %made = (made => 'CREATE EXTENSION outbox', updated => q{CREATE EXTENSION outbox VERSION '0.1'; ALTER EXTENSION outbox UPDATE});
my $others = q{SELECT coalesce(string_agg(c.relname, ' ' ORDER BY 1), '') FROM pg_class c JOIN pg_am a ON a.oid = c.relam
	WHERE c.relnamespace::regnamespace::text ~ '^outbox' AND c.relkind IN ('r', 'p') AND a.amname <> 'heap'};
# What is of 0.1 stays as it was made, which worked.
my %kept;
foreach my $database (sort keys %made)
{
	$node->safe_psql('postgres', "CREATE DATABASE $database");
	$node->safe_psql($database, 'CREATE ACCESS METHOD heap2 TYPE TABLE HANDLER heap_tableam_handler');
	if ($database eq 'updated')
	{
		$node->safe_psql($database, q{SET default_table_access_method = heap2; CREATE EXTENSION outbox VERSION '0.1'});
		$kept{$_} = 1 foreach split / /, $node->safe_psql($database, $others);
		$node->safe_psql($database, 'DROP EXTENSION outbox');
	}
	$node->safe_psql('postgres', "ALTER DATABASE $database SET default_table_access_method = heap2");
	$node->safe_psql($database, "BEGIN; $made{$database}; CREATE TABLE mine (); COMMIT");
	is($node->safe_psql($database, 'SHOW default_table_access_method'), 'heap2', "$database: the setting stays");
	is($node->safe_psql($database, q{SELECT a.amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE c.oid = 'mine'::regclass}), 'heap2',
		'also in its transaction');
	is(join(' ', grep { !$kept{ $database eq 'updated' ? $_ : '' } } split / /, $node->safe_psql($database, $others)), '', 'all its tables are heap tables');

	$node->safe_psql($database, q{CREATE SERVER n FOREIGN DATA WRAPPER outbox_null});
	$node->safe_psql($database, q{SELECT outbox.create_route('r', server => 'n')});
	my $works = q{SELECT count(*) FROM outbox.lag; SELECT count(*) > 0 FROM outbox.day; SELECT count(*) > 0 FROM outbox.metrics(); CALL outbox.drop_expired(keep => '1 day');
		SELECT outbox.emit('order', 1, 'e', '{}') IS NOT NULL; SELECT outbox.emit('order', 1, 'e', '{}', dedupe_key => 'd') IS NOT NULL;};
	my ($code, $out, $err) = $node->psql($database, $works);
	is($code == 0 ? '' : $err, '', 'an event is taken, and all who look can look');
	is($node->safe_psql($database, 'SELECT count(*) FROM outbox_internal.log_spare'), 2, 'in the spare table');

	# Altered by hand.
	$node->safe_psql($database, 'SET outbox.allow_loss = on; ALTER TABLE outbox_internal.log_spare SET ACCESS METHOD heap2');
	($code, $out, $err) = $node->psql($database, 'SELECT * FROM outbox.lag');
	like($err, qr/ERROR: +table "log_spare" is not a day table .*not a heap table/s, 'a table that was altered is told of');
	my ($mend) = $err =~ /: (SET outbox\.allow_loss = on; ALTER TABLE outbox_internal\.log_spare [^.]*)\.$/m;
	$node->safe_psql($database, $mend // 'SELECT 1');
	is(($node->psql($database, $works))[0], 0, 'with what mends it');
}
no_server_crashed($node);
done_testing();
