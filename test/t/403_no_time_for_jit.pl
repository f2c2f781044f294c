# Where all but the smallest query is compiled just in time, none of outbox is: doctor() and the functions that grant take milliseconds.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "jit_above_cost = 1\njit_inline_above_cost = 0\njit_optimize_above_cost = 0\n");
plan skip_all => 'this server compiles nothing' if $node->safe_psql('postgres', 'SELECT pg_jit_available()') ne 't';
$node->safe_psql('postgres', q{CREATE SERVER n FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('r', server => 'n'); CREATE ROLE app;
	CREATE TABLE t (id int PRIMARY KEY); CREATE TRIGGER e AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('t', 'id')});
# Whether the library of the compiler is there at the end of a session that began with a new process: it is loaded at first use.
my $loaded = q{DO $$ BEGIN RAISE INFO '%', pg_read_file('/proc/' || pg_backend_pid() || '/maps') ~ 'llvmjit'; END $$};
sub compiles
{
	my ($sql) = @_;
	my (undef, undef, $err) = $node->psql('postgres', "$sql; SET jit = off; $loaded", on_error_stop => 1);
	return $err =~ /INFO:  ([tf])/ ? $1 : $err;
}
plan skip_all => 'no /proc to look into' if compiles('SELECT 1') =~ /ERROR/;
is(compiles('SELECT count(*) FROM pg_class'), 't', 'a query of somebody is');
is(compiles("SELECT $_"), 'f', "not $_") foreach 'outbox.doctor_ok()', q{outbox.grant_emit('app')}, q{outbox.grant_emit('app', topics => '{x.*}')}, q{outbox.revoke_emit('app')},
	q{outbox.grant_receive('app', '{a}')}, q{outbox.revoke_receive('app')}, q{outbox.grant_operate('app')}, q{outbox.revoke_operate('app')}, 'outbox.metrics_text()';
done_testing();
