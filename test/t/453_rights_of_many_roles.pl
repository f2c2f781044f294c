# What looks after rights by pattern, and doctor(), take as long as there are rights, however many roles the server has, and
# whatever the planner thinks: calls of functions are counted. Where nothing has changed, the keeper writes nothing.
# matrix: R7
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node();
sub sql { return $node->safe_psql('postgres', @_) }
sub roles { my ($from, $to) = @_; return sql("DO \$\$ BEGIN FOR i IN $from..$to LOOP EXECUTE format('CREATE ROLE r%s', i); END LOOP; END \$\$") }
sub grant { my ($from, $to) = @_; return sql("SELECT count(*) FROM (SELECT outbox.grant_emit(format('r%s', i)::regrole) FROM generate_series($from, $to) i) g") }
# Of functions of the extension, in SQL or PL/pgSQL, in a statement.
sub calls
{
	my ($statement, $settings) = @_;
	return (split /\n/, sql("SET track_functions = 'all'; $settings BEGIN; SELECT count(*) FROM ($statement) s;
		SELECT 'calls ' || coalesce(sum(calls), 0) FROM pg_stat_xact_user_functions WHERE schemaname IN ('outbox', 'outbox_internal'); COMMIT"))[-1] =~ /calls (\d+)/ ? $1 : die;
}
my $by_key = 'SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_seqscan = off; SET enable_bitmapscan = off;';
my %statements = ('doctor()' => 'SELECT * FROM outbox.doctor()', 'follow_role_names()' => 'SELECT outbox_internal.follow_role_names()',
	'grant_emit()' => q(SELECT outbox.grant_emit('r1', '{shop.*}')), 'revoke_emit()' => q(SELECT outbox.revoke_emit('r2')));
sub all_calls { my %calls; foreach my $name (sort keys %statements) { grant(2, 2); $calls{"$name, $_->[0]"} = calls($statements{$name}, $_->[1]) foreach ['plain', ''], ['by key', $by_key] } return \%calls }

roles(1, 20);
grant(1, 20);
all_calls(); # from now on topics are limited
my $few = all_calls();
roles(21, 320);
my $beside = all_calls();
cmp_ok($beside->{$_}, '<', $few->{$_} + 50, "$_: as many calls in a server with 300 more roles") foreach sort keys %$few;
grant(21, 60);
my $more = all_calls();
cmp_ok($more->{$_}, '<=', 4 * $few->{$_}, "$_: three times as many rights, and no more calls than that") foreach sort keys %$few;

# Renamed, taken back and dropped roles are found as before.
sql('ALTER ROLE r3 RENAME TO renamed; ALTER ROLE r4 RENAME TO r3; DROP OWNED BY r5; DROP ROLE r5');
sql('SELECT outbox_internal.follow_role_names()');
is(sql(q(SELECT string_agg(e.role || ' ' || (e.role_id = r.oid), ', ' ORDER BY e.role) FROM outbox_internal.emit_right e
	JOIN pg_roles r ON r.rolname = e.role WHERE e.role IN ('r3', 'r4', 'renamed'))), 'r3 true, renamed true', 'two names have moved on');
is(sql(q(SELECT count(*) FROM outbox.doctor() WHERE "check" = 'rights' AND detail LIKE '%''r5''%no such role%')), '1', 'a role that was dropped is told of');
sql(q(DELETE FROM outbox_internal.emit_right WHERE role = 'r5'));
is((split /\n/, sql('BEGIN; SELECT outbox_internal.follow_role_names(); SELECT pg_current_xact_id_if_assigned() IS NULL; COMMIT'))[-1], 't', 'where all is as it was nothing is written');
$node->stop;
done_testing();
