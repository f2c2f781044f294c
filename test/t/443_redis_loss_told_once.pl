# matrix: E-5
# A name moves from one Redis to another, which lacks what the first had. One worker finds out and puts its lanes back; they
# move to another worker, which is still connected to the first. When that comes to the new one, what was sent again there
# is not missed once more; what was written to the old one meanwhile is.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => 'outbox.workers = 2');
my $dir = PostgreSQL::Test::Utils::tempdir_short();
my %redis = map { $_ => Outbox::Redis->start(conf => [ 'appendonly no', 'save ""', "unixsocket $dir/$_" ]) } qw(old new);
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub points_to { my ($name) = @_; symlink("$dir/$name", "$dir/next") && rename("$dir/next", "$dir/redis") or die $!; return }
my @routes = map { "r$_" } 1 .. 6;
my %sent;
sub emit { foreach my $route (@_) { $sent{$route}++; emit_counted($node, $route, ['k'], $sent{$route}, $sent{$route}) } return }
sub arrived { my ($name, $route) = @_; return by_key([ map { $_->{payload} } @{ $redis{$name}->entries("outbox.event.$route") } ])->{k} // '' }
sub put_back { return split /\n/, sql(q{SELECT route FROM outbox.audit WHERE action = 'rewind' ORDER BY route, at}) }
sub at_rest
{
	my ($what) = @_;
	ok(wait_idle($node, 120), "$what: idle");
	return ok(wait_for_value($node, q{SELECT count(*) FROM outbox.lag WHERE inflight > 0}, 0, 60), "$what: all of it is acknowledged");
}
sub worker { my ($ordinal) = @_; return sql("SELECT pid FROM outbox.worker WHERE kind = 'relay' AND ordinal = $ordinal") }
# Its sink comes again, to where the name points.
sub reconnects { my ($pid) = @_; kill 'KILL', child_pids($pid); return }

points_to('old');
sql("CREATE SERVER r FOREIGN DATA WRAPPER outbox_redis OPTIONS (unix_socket '$dir/redis')");
sql("SELECT outbox.create_route('$_', server => 'r', aggregate_types => '{$_}')") foreach @routes;
ok(wait_for_value($node, 'SELECT count(DISTINCT owner), count(owner), min(n) FROM (SELECT owner, count(*) OVER (PARTITION BY owner) AS n FROM outbox_internal.lane WHERE owner IS NOT NULL) l',
	'2|6|3', 120), 'each worker has some');
emit(@routes);
emit(@routes);
at_rest('at the old one');
points_to('new');
my @workers = map { worker($_) } 0 .. 1;
reconnects($workers[1]);
ok(wait_until(sub { put_back() == 3 }, 60), 'one worker has found out');
my @moved = put_back();
is(scalar(keys %{ { map { $_ => 1 } @moved } }), 3, 'its lanes were put back, each once');
ok(wait_until(sub { (grep { arrived('new', $_) eq '1 2' } @moved) == 3 }, 60), 'and have sent again what they had sent');
at_rest('at both');

sql('ALTER SYSTEM SET outbox.workers = 1');
sql('SELECT pg_reload_conf()');
ok(wait_until(sub { "@{[ relay_pids($node) ]}" eq $workers[0] }, 60), 'it ends');
ok(wait_for_value($node, 'SELECT count(DISTINCT owner), count(owner) FROM outbox_internal.lane', '1|6', 60), 'the other has all of them');
emit($moved[0]);
at_rest('the last worker');
is(arrived('old', $moved[0]), '1 2 3', 'which is still at the old one');
reconnects($workers[0]);
ok(wait_until(sub { put_back() > 3 + 3 }, 60), 'it comes to the new one');
emit(@routes);
at_rest('at the new one');
foreach my $route (@routes)
{
	my %seen;
	is(join(' ', grep { !$seen{$_}++ } split / /, arrived('new', $route)), join(' ', 1 .. $sent{$route}), "$route: all is there, in order");
}
is(arrived('new', $_), '1 2 3', "$_: and once") foreach @moved[ 1, 2 ];
is_deeply([ put_back() ], [ sort @routes, $moved[0] ], 'each was put back once, and one that wrote to the old one since once more');
no_server_crashed($node);
done_testing();
