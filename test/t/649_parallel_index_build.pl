# Where everything is to be done in parallel, day tables are made by one process all the same: the shared memory that
# several take for an index of an empty table may be full, and events would wait for it.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "min_parallel_table_scan_size = 0\nparallel_setup_cost = 0\nparallel_tuple_cost = 0\nmax_worker_processes = 24\n"
	  . "log_min_messages = debug1\noutbox.lone_emit = allow\n");
sub sql { return $node->safe_psql(@_) }

# By the keeper.
sql('postgres', q(CREATE SERVER n FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('all', 'n')));
sql('postgres', q(SELECT outbox.emit('order', '1', 'x', '{}'::jsonb)));
ok(wait_for_value($node, q(SELECT count(*) > 1 FROM outbox_internal.log_table WHERE day IS NOT NULL), 't', 60), 'the keeper has made tables of days');
# By the emitting session.
sql('postgres', 'CREATE DATABASE other');
sql('other', q(BEGIN; CREATE EXTENSION outbox; SELECT outbox.emit('order', '1', 'x', '{}'::jsonb, dedupe_key => 'once'); COMMIT));
# Another table shows that it would be done.
sql('other', q(CREATE TABLE t (a int); CREATE INDEX ON t (a)));

my @built = slurp_file($node->logfile) =~ /building index "(\w+)" on table "\w+" (serially|with request for \d+ parallel workers?)/g;
my (%by, %parallel);
while (my ($index, $how) = splice @built, 0, 2)
{
	$by{$1}++ if $index =~ /^([a-z_]+)_\d{8}_/;
	$parallel{$index} = 1 if $how ne 'serially';
}
cmp_ok($by{log} // 0, '>', 2, 'indexes of days of the log were made');
ok($by{emit_key}, 'and of the keys of events');
is(join(' ', sort grep { /_\d{8}_/ } keys %parallel), '', 'none of them by several processes');
ok($parallel{t_a_idx}, 'as others are here');
no_server_crashed($node);
done_testing();
