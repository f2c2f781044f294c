# The extension is made and updated, and a dump of it restored, in a database whose settings make SQL say something else: string
# literals that take backslashes (standard_conforming_strings = off), and others. What comes of it is what comes of it elsewhere.
# matrix: R26
use strict;
use warnings;

use Outbox::Catalog qw(catalog);
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(extension => 0, conf => stage_with('outbox--0.1.sql'));
sub sql { my ($database, $query) = @_; return $node->safe_psql($database, $query) }
sub outcome { my ($database, $query) = @_; my ($code, $out, $err) = $node->psql($database, $query); return $err ne '' ? $err : $out }

my @settings = ("datestyle = 'SQL, DMY'", "intervalstyle = 'sql_standard'", "bytea_output = 'escape'", 'array_nulls = off', "timezone = 'Asia/Kathmandu'",
	'transform_null_equals = on', 'check_function_bodies = on',
	"plpgsql.extra_errors = 'all'", 'plpgsql.check_asserts = off', 'row_security = off');
# Releases from 19 on have no other value.
my ($refused) = $node->psql('postgres', 'SET standard_conforming_strings = off');
push @settings, 'standard_conforming_strings = off', "backslash_quote = 'off'", 'escape_string_warning = on' if $refused == 0;

sql('postgres', "CREATE DATABASE $_") foreach qw(plain fresh updated restored);
sql('plain', 'CREATE EXTENSION outbox');
foreach my $database (qw(fresh updated restored))
{
	sql('postgres', join '; ', map { "ALTER DATABASE $database SET $_" } @settings);
}
my %plain = map { $_ => 1 } catalog($node, 'plain');
sub as_elsewhere
{
	my ($database) = @_;
	# Asked as elsewhere.
	sql('postgres', "ALTER DATABASE $database RESET ALL");
	my %here = map { $_ => 1 } catalog($node, $database);
	return is_deeply([ (map { "- $_" } grep { !$here{$_} } sort keys %plain), (map { "+ $_" } grep { !$plain{$_} } sort keys %here) ], [], "$database: the same as elsewhere");
}

is(outcome('fresh', 'CREATE EXTENSION outbox'), '', 'it is made');
is(outcome('fresh', q{CREATE TABLE t (id int PRIMARY KEY); CREATE TRIGGER t AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('t', 'id');
	CREATE ROLE limited; SELECT outbox.grant_emit('limited', topics => '{u}'); ALTER TABLE t OWNER TO limited}) =~ s/\n.*|WARNING.*//sr, '', 'and topics limited');
is(sql('fresh', q{SELECT count(*) FROM outbox.doctor() WHERE "check" = 'rights' AND detail LIKE '%outbox.event.t%'}), 1, 'which is seen for what it is');
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';
command_ok([ 'pg_dump', '-f', $dump, '-d', $node->connstr('fresh') ], 'it is dumped');
command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, '-d', $node->connstr('restored') ], 'and restored');
sql($_, q{DROP TABLE t; SELECT outbox.revoke_emit('limited'); DROP OWNED BY limited}) foreach qw(fresh restored);
as_elsewhere($_) foreach qw(fresh restored);

is(outcome('updated', q{CREATE EXTENSION outbox VERSION '0.1'; ALTER EXTENSION outbox UPDATE}), '', 'it is updated');
as_elsewhere('updated');
no_server_crashed($node);
done_testing();
