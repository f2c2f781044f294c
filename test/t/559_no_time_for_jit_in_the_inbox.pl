# Where each query is compiled just in time, those by which consumers receive are not: to compile one takes longer than to run it.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "jit = on\njit_above_cost = 0\njit_inline_above_cost = 0\njit_optimize_above_cost = 0\n");
plan skip_all => 'this server compiles nothing' if $node->safe_psql('postgres', 'SELECT pg_jit_available()') ne 't';
# Whether the library of the compiler is there at the end of a session that began with a new process: it is loaded at first use. DO and CALL
# have no plan of their own that is compiled.
my $loaded = q{DO $$ BEGIN RAISE INFO '%', pg_read_file('/proc/' || pg_backend_pid() || '/maps') ~ 'llvmjit'; END $$};
sub compiles
{
	my ($call) = @_;
	# The caller's own statement is his to compile; it is planned, and run, with it off, and turned on inside.
	my (undef, undef, $err) = $node->psql('postgres', "CREATE FUNCTION pg_temp.called() RETURNS void LANGUAGE plpgsql SET jit = on AS \$\$ BEGIN $call END \$\$;
		SET jit = off; SELECT pg_temp.called(); $loaded", on_error_stop => 1);
	return $err =~ /INFO:  ([tf])/ ? $1 : $err;
}
plan skip_all => 'no /proc to look into' if compiles('PERFORM count(*) FROM pg_class;') =~ /ERROR/;
is(compiles('PERFORM count(*) FROM pg_class;'), 't', 'a query of somebody is');
# An assignment of plpgsql is evaluated without a plan.
is(compiles("DECLARE x text; BEGIN x := $_; END;"), 'f', "not $_") foreach q{outbox.receive('c', gen_random_uuid())},
	q{outbox.receive('c', 's', 'k', (extract(epoch FROM now()) * 1000000)::bigint)}, q{outbox.receive_next('c', 's', 1)}, q{outbox.received_to('c', 's')};
no_server_crashed($node);
done_testing();
