# The role that installed the extension is demoted, may not log in any more, gives all it owns to another one, and is dropped,
# while workers run: they go on, with the rights of the tables' present owner, and nothing is lost, repeated or out of
# order.
# matrix: G11
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(extension => 0);
my $redis = Outbox::Redis->start;
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
my $n = 0;

sub flows
{
	my ($what) = @_;
	$n++;
	sql("SET ROLE app; SELECT outbox.emit_text('t', 'k', 'x', 'k $n')");
	ok(wait_until(sub { (by_key($redis->column('t', 'payload'))->{k} // '') eq join ' ', 1 .. $n }, 20), "events flow: $what")
	  or diag(sql('SELECT * FROM outbox.lag'));
	# Also written down, which takes rights.
	return ok(wait_for_value($node, q{SELECT bool_and(state = 'idle' AND error_message IS NULL) FROM outbox.lag}, 't', 20), "without trouble: $what");
}

sql('CREATE ROLE app; CREATE ROLE first SUPERUSER; CREATE ROLE second SUPERUSER');
sql("SET ROLE first; CREATE EXTENSION outbox;
	CREATE SERVER r FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}');
	SELECT outbox.create_route('r', server => 'r', topic => 't', lanes => 2);
	SELECT outbox.grant_emit('app')");
flows('installed by a superuser');
my @pids = relay_pids($node);
sql('ALTER ROLE first NOSUPERUSER NOLOGIN CONNECTION LIMIT 0');
flows('after the role has lost superuser');
sql('REASSIGN OWNED BY first TO second');
flows('another one owns the tables');
sql('DROP OWNED BY first; DROP ROLE first');
flows('the first one is dropped');
is_deeply([ relay_pids($node) ], \@pids, 'all of it by the same workers');
sql(q{SELECT outbox.alter_route('r', lanes => 3)});
ok(wait_for_value($node, 'SELECT lanes FROM outbox.route', 3, 30), 'the keeper works as well');
flows('through three lanes');
no_server_crashed($node);
done_testing();
