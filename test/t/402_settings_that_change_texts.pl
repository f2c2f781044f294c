# Settings that change how SQL is read (string literals that take backslashes) and how names and values are written. The extension is
# made and updated, and a dump of it restored, in a database that has them: what comes of it is what comes of it elsewhere. doctor() and
# the guards say the same under each of them as without, whether they were so then, or are when somebody asks. None is lost on the way.
# matrix: G2 R26 R73
use strict;
use warnings;

use Outbox::Catalog qw(catalog);
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(extension => 0, conf => stage_with('outbox--0.1.sql') . "max_worker_processes = 24\n");
my @settings = ('quote_all_identifiers = on', q{search_path = public}, q{datestyle = 'SQL, DMY'}, 'intervalstyle = sql_standard', 'extra_float_digits = -15',
	'bytea_output = escape', q{timezone = 'Asia/Kathmandu'}, 'array_nulls = off', 'transform_null_equals = on', q{lc_monetary = 'C'},
	'default_tablespace = pg_default', 'check_function_bodies = on', q{plpgsql.extra_errors = 'all'}, 'plpgsql.check_asserts = off', 'row_security = off');
# Releases from 19 on have no other value.
my ($refused) = $node->psql('postgres', 'SET standard_conforming_strings = off');
push @settings, 'standard_conforming_strings = off', q{backslash_quote = 'off'}, 'escape_string_warning = on' if $refused == 0;
my $flipped = join ' ', map { "SET $_;" } @settings;
my $wrong = q{SELECT coalesce(string_agg(concat_ws(' | ', status, detail, hint), E'\n' ORDER BY detail), '') FROM outbox.doctor()
	WHERE "check" IN ('guards', 'triggers', 'foreign keys', 'rights', 'day tables') AND status <> 'ok'};

sub same
{
	my ($database, $what, $sql, $expected) = @_;
	is($node->safe_psql($database, $_->[1] . $sql), $expected // $node->safe_psql($database, $sql), "$database, asked $_->[0]: $what") foreach [ 'plainly', '' ], [ 'flipped', $flipped ];
	return;
}

sub outcome { my ($database, $query) = @_; my ($code, $out, $err) = $node->psql($database, $query); return $err ne '' ? $err : $out }

# --- made, updated and restored in databases that have the settings ---
# Version 0.1 cannot be made where a tablespace is named.
my %made = (plain => 'CREATE EXTENSION outbox', flipped => 'CREATE EXTENSION outbox',
	updated => q{SET default_tablespace = ''; CREATE EXTENSION outbox VERSION '0.1'; RESET default_tablespace; ALTER EXTENSION outbox UPDATE});
$node->safe_psql('postgres', "CREATE DATABASE $_") foreach qw(plain flipped updated restored);
foreach my $database (qw(flipped updated restored))
{
	$node->safe_psql('postgres', join '; ', map { "ALTER DATABASE $database SET $_" } @settings);
}
is(outcome($_, "$made{$_}; SHOW quote_all_identifiers"), $_ eq 'plain' ? 'off' : 'on', "$_: it is made, and the setting stays as it was") foreach qw(plain flipped updated);
is(outcome('flipped', q{CREATE TABLE t (id int PRIMARY KEY); CREATE TRIGGER t AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('t', 'id');
	CREATE ROLE limited; SELECT outbox.grant_emit('limited', topics => '{u}'); ALTER TABLE t OWNER TO limited}) =~ s/\n.*|WARNING.*//sr, '', 'and topics limited');
is($node->safe_psql('flipped', q{SELECT count(*) FROM outbox.doctor() WHERE "check" = 'rights' AND detail LIKE '%outbox.event.t%'}), 1, 'which is seen for what it is');
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';
command_ok([ 'pg_dump', '-f', $dump, '-d', $node->connstr('flipped') ], 'it is dumped');
command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, '-d', $node->connstr('restored') ], 'and restored');
$node->safe_psql($_, q{DROP TABLE t; SELECT outbox.revoke_emit('limited'); DROP OWNED BY limited}) foreach qw(flipped restored);
my %plain = map { $_ => 1 } catalog($node, 'plain');
foreach my $database (qw(flipped updated restored))
{
	# From here on asked as elsewhere, unless it says otherwise.
	$node->safe_psql('postgres', "ALTER DATABASE $database RESET ALL");
	my %here = map { $_ => 1 } catalog($node, $database);
	is_deeply([ (map { "- $_" } grep { !$here{$_} } sort keys %plain), (map { "+ $_" } grep { !$plain{$_} } sort keys %here) ], [], "$database: the same as elsewhere");
}

# --- in use, and asked with them and without ---
my $own = q{SELECT string_agg(o::text, E'\n' ORDER BY o.relation, o.trigger_name) FROM outbox_internal.own_triggers() o};
my $plain;
foreach my $database (qw(plain flipped updated))
{
	$node->safe_psql($database, q{CREATE SERVER n FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('r', server => 'n');
		SELECT outbox.emit('order', 1, 'e', '{}');});
	is($node->safe_psql($database, "SELECT outbox.wait_until_idle('120 s')"), 't', "$database: what was emitted is published");
	$plain //= $node->safe_psql($database, $own);
	is($node->safe_psql($database, $own), $plain, "$database: it knows its triggers by the same texts");
	# Its keeper has made the tables of the days to come.
	ok(wait_until(sub { $node->safe_psql($database, q{SELECT status FROM outbox.doctor() WHERE "check" = 'day tables'}) eq 'ok' }, 60), "$database: all days are there");
	same($database, 'nothing is wrong', $wrong, '');
	my $ok = 'SELECT outbox.doctor_ok()';
	same($database, 'doctor_ok()', $ok);
	same($database, 'all rows that are not of figures', q{SELECT string_agg(concat_ws(' | ', "check", status, hint), E'\n' ORDER BY "check", status, hint) FROM outbox.doctor()});

	# A day table without one of its guards, a table with another one's, and one that somebody added: told of, with what mends it.
	my $day = $node->safe_psql($database, q{SELECT tableoid::regclass FROM outbox_internal.log LIMIT 1});
	$node->safe_psql($database, qq{SET outbox.allow_loss = on; DROP TRIGGER log_loss ON $day;});
	same($database, 'a guard is gone', $wrong);
	my $hint = $node->safe_psql($database, $flipped . q{SELECT hint FROM outbox.doctor() WHERE "check" = 'guards' AND status <> 'ok'});
	like($hint, qr/\ACREATE OR REPLACE TRIGGER log_loss [^"]* ON \Q$day\E /, "$database: it says what makes it again");
	$node->safe_psql($database, "$flipped $hint");
	same($database, 'and it is there again', $wrong, '');
}

# What the guards refuse, and the words they say it with.
foreach my $database (qw(plain flipped))
{
	$node->safe_psql($database, q{SELECT outbox.pause(route => 'r', reason => 'x'); SELECT outbox.emit('order', 1, 'e', '{}');});
	my $day = $node->safe_psql($database, q{SELECT tableoid::regclass FROM outbox_internal.log LIMIT 1});
	foreach my $sql ('DELETE FROM outbox_internal.log', 'TRUNCATE outbox_internal.log', "DROP TABLE $day", "ALTER TABLE outbox_internal.log DETACH PARTITION $day",
		'DROP SERVER n CASCADE', 'DROP EXTENSION outbox CASCADE', q{SELECT outbox.drop_route('r')}, 'ALTER TABLE outbox_internal.log DISABLE TRIGGER ALL',
		'UPDATE outbox_internal.lane SET lane = 5', 'DROP TRIGGER log_guard ON outbox_internal.log', 'TRUNCATE outbox_internal.parked')
	{
		my (undef, undef, $said) = $node->psql($database, "BEGIN; $sql; ROLLBACK");
		my (undef, undef, $flipped_said) = $node->psql($database, "$flipped BEGIN; $sql; ROLLBACK");
		s/^psql:[^ ]* //mg, s/"//g foreach $said, $flipped_said;
		like($said, qr{^(ERROR|NOTICE): }m, "$database: not done without a word: $sql");
		is($flipped_said, $said, "$database: $sql");
	}
}

# What the audit keeps of roles is their names.
$node->safe_psql('plain', q{CREATE ROLE "An app"; CREATE ROLE app});
$node->safe_psql('plain', qq{$flipped SELECT outbox.grant_emit('"An app"'), outbox.grant_emit('app'), outbox.revoke_emit('app'); GRANT USAGE ON FOREIGN SERVER n TO app;
	GRANT USAGE ON FOREIGN DATA WRAPPER outbox_null TO app; ALTER SERVER n OWNER TO app});
is($node->safe_psql('plain', q{SELECT string_agg(coalesce(detail ->> 'to', detail ->> 'from', detail #>> '{changed,owner,to}'), ', ' ORDER BY at) FROM outbox.audit
	WHERE action ~ '^(grant|revoke)_' OR action = 'alter server'}), 'An app, app, app, app', 'in the audit, too');

# And of times that were asked for.
my $kept = q{SELECT string_agg(a.detail::text, E'\n' ORDER BY a.at) FROM outbox.audit a WHERE a.action IN ('redrive', 'discard', 'reprocess');
	SELECT string_agg(p.filter::text, E'\n' ORDER BY p.number) FROM outbox.replay p};
foreach my $database (qw(plain flipped))
{
	my $settings = $database eq 'plain' ? q{SET timezone = 'UTC';} : $flipped;
	$node->safe_psql($database, qq($settings $_)) foreach
		q{CALL outbox.redrive(since => '2026-02-01 10:00+00', until => '2026-02-01 10:00:00.5+00', dry_run => false)},
		q{CALL outbox.discard_dead_letters(since => '-infinity', until => '2026-02-01 10:00+00', reason => 'x', dry_run => false)},
		q{CALL outbox.replay(since => '2026-02-01 10:00+00', until => 'infinity', route => 'r', event_type => 'none', dry_run => false)},
		q{SELECT outbox.reprocess('c', '2026-02-01 10:00+00', 'infinity')};
}
my $kept_plain = $node->safe_psql('plain', $kept);
like($kept_plain, qr/"since": "2026-02-01 10:00:00\+00", "until": "2026-02-01 10:00:00\.5\+00"/, 'times are kept as UTC');
unlike($kept_plain, qr/:00(?:\.5)?"/, 'each of them');
is($node->safe_psql('flipped', $kept), $kept_plain, 'whatever the session says');
no_server_crashed($node);
done_testing();
