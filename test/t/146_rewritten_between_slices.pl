# A day table is rewritten, or its index comes or goes, while a lane is between two slices of a window, before it has
# found a row that it wants: every event is delivered all the same. Also twice in one window, also in the middle of
# handing a window out, also with several day tables.
# matrix: C8 R3
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $redis = Outbox::Redis->start;
my $node = new_node(conf => "outbox.sort_mem = '256kB'\noutbox.max_inflight = '1MB'\noutbox.retention = '30d'\n");
my $routes = 0;

sub sql { return $node->safe_psql('postgres', $_[0]) }

# One transaction: what the routes do not want, then what they want; two days of it.
Outbox::Faults::put('slice.rows', 2000);
sub fill
{
	sql(q{BEGIN; SELECT count(outbox.emit('other', i, 'e', '1')) FROM generate_series(1, 9000) i;
		SELECT count(outbox.emit('t', i % 3, 'e', to_jsonb(i))) FROM generate_series(1, 50) i; COMMIT});
	return;
}
fill();
my $table = sql('SELECT DISTINCT tableoid::regclass FROM outbox_internal.log');
sql("SET outbox.allow_loss = on; CREATE INDEX another_order ON $table (md5(id::text))");
# What is wanted comes first in the new order.
sql("SET outbox.allow_loss = on; CREATE INDEX wanted_first ON $table ((aggregate_type <> 't'), md5(id::text))");

# Reads the log from the beginning, by a route of its own. Each time that the worker comes to the point the next of the
# statements is run.
sub all_arrive
{
	my ($what, $point, @statements) = @_;
	my $name = 'r' . ++$routes;
	my $wanted = sql("SELECT count(*) FROM outbox_internal.log WHERE aggregate_type = 't'");
	my $said = () = slurp_file($node->logfile) =~ /the log was rewritten while lane/g;
	Outbox::Faults::arm($point, 'wait');
	redis_route($node, $redis, $name, start => "'earliest'", aggregate_types => "'{t}'", topic => "'$name'");
	while (defined(my $statement = shift @statements))
	{
		ok(Outbox::Faults::await_waiting($point), "$what: between two slices");
		ref $statement ? $statement->($name) : sql($statement);
		@statements ? Outbox::Faults::let_pass($point) : Outbox::Faults::release($point);
	}
	ok(wait_idle($node), "$what: read to the end");
	is(join(' ', @{ $redis->column($name, 'id') }), join(' ', split /\n/, sql(q(SELECT id FROM outbox_internal.log WHERE aggregate_type = 't' ORDER BY created_at))),
		"$what: all $wanted, once, in order");
	my $now = () = slurp_file($node->logfile) =~ /the log was rewritten while lane/g;
	cmp_ok($now, '>', $said, "$what: the server log says so") unless $what =~ /^nothing/;
	sql("SELECT outbox.drop_route('$name')");
	return;
}

all_arrive('nothing', 'chunk.before', 'SELECT 1');
all_arrive('clustered', 'chunk.before', "CLUSTER $table USING wanted_first");
all_arrive('vacuumed', 'chunk.before', "SET outbox.allow_loss = on; DELETE FROM $table WHERE aggregate_type = 'other' AND md5(id::text) < '4'; VACUUM FULL $table");
all_arrive('twice', 'chunk.before', "CLUSTER $table USING another_order", "CLUSTER $table USING wanted_first");
all_arrive('index rebuilt', 'chunk.before', "REINDEX TABLE $table");
all_arrive('index dropped', 'chunk.before', "SET outbox.allow_loss = on; DROP INDEX ${table}_xid");
my $short = $table =~ s/^outbox_internal\.//r;
all_arrive('index made', 'chunk.before', "CREATE INDEX ${short}_xid ON $table (xid)");

# Several day tables: the rewritten one is the first, the second, both.
Outbox::Faults::shift_clock(86_400_000_000);
fill();
my ($first, $second) = split /\n/, sql('SELECT DISTINCT tableoid::regclass FROM outbox_internal.log ORDER BY 1');
isnt($second, undef, 'a second day');
sql("SET outbox.allow_loss = on; CREATE INDEX second_by_id ON $second (md5(id::text)); CREATE INDEX second_order ON $second ((aggregate_type <> 't'), md5(id::text))");
my @rewrite = ("CLUSTER $first USING another_order", "CLUSTER $second USING second_order");
all_arrive('the first day', 'chunk.before', ('SELECT 1') x 1, $rewrite[0]);
all_arrive('the second day', 'chunk.before', ('SELECT 1') x 5, $rewrite[1]);
all_arrive('both days', 'chunk.before', ('SELECT 1') x 5, "$rewrite[0]; $rewrite[1]");

# Handing out has begun when it is rewritten: what is large is fetched row by row.
sql(q{SELECT count(outbox.emit('t', i % 3, 'e', to_jsonb(repeat(md5(i::text), 50)))) FROM generate_series(1, 3000) i});
sub under_way
{
	my ($name) = @_;
	my $deadline = time + 10;
	sleep 0.05 until $redis->command('XLEN', $name) > 0 || time > $deadline;
	my $length = $redis->command('XLEN', $name);
	ok($length > 0 && $length < 3000, "in the middle: $length have arrived");
	return;
}
all_arrive('in the middle', 'chunk.before', ('SELECT 1') x 12, \&under_way, "CLUSTER $second USING second_by_id", "CLUSTER $second USING second_order");

no_server_crashed($node);
done_testing();
