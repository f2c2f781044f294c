# Indexes made by users on a day table, some of which begin with xid, come and go, and the extension's goes: every event
# is delivered, once, in order, whichever of them the reader could have taken.
# matrix: C8 R2
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $redis = Outbox::Redis->start;
my $node = new_node();

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub doctor { return sql("SELECT $_[0] FROM outbox.doctor() WHERE \"check\" = 'index'") }

redis_route($node, $redis, 'r');
sql("SELECT outbox.emit('t', 1, 'e', '0')");
ok(wait_idle($node), 'events flow');
my $table = sql('SELECT tableoid::regclass FROM outbox_internal.log');
my $ours = "${table}_xid";

# Ten events of one transaction, whose keys come in another order than their rows.
sub all_arrive
{
	my ($what) = @_;
	my $before = $redis->command('XLEN', 'outbox.event.t');
	sql("SELECT outbox.emit('t', 9 - i, 'e', to_jsonb(i)) FROM generate_series(0, 9) i");
	ok(wait_idle($node), "$what: read to the end");
	my @all = @{ $redis->column('outbox.event.t', 'payload') };
	is(join(' ', @all[ $before .. $#all ]), join(' ', 0 .. 9), "$what: each event once, in order");
	is(sql("BEGIN; SELECT outbox.emit('t', i, 'mine', '1') IS NULL FROM generate_series(2, 1, -1) i;
		SELECT count(*) FROM outbox.event; ROLLBACK"), "f\nf\n2", "$what: the view shows a transaction its own");
	return;
}

foreach my $case (
	[ 'two columns', 'btree (xid, aggregate_id)' ],
	[ 'descending', 'btree (xid DESC)' ],
	[ 'partial', "btree (xid) WHERE aggregate_id > '5'" ],
	[ 'hash', 'hash (xid)' ],
	[ 'an expression', 'btree ((xid::text))' ],
	[ 'more in it', 'btree (xid) INCLUDE (aggregate_id)' ],
	[ 'the same as ours', 'btree (xid)' ])
{
	my ($what, $definition) = @$case;
	sql("SET outbox.allow_loss = on; CREATE INDEX by_somebody ON $table USING $definition");
	$node->safe_psql('postgres', "REINDEX INDEX CONCURRENTLY $ours");
	is(sql("SELECT 'outbox_internal.by_somebody'::regclass::oid::int8 < '$ours'::regclass::oid::int8"), 't', "$what: an index older than ours");
	all_arrive($what);
	sql('DROP INDEX outbox_internal.by_somebody');
}

# Two at once, and one that could not be finished.
sql("CREATE INDEX by_somebody ON $table (xid, created_at); CREATE INDEX by_another ON $table (xid, id DESC)");
$node->psql('postgres', "SET outbox.allow_loss = on; CREATE UNIQUE INDEX CONCURRENTLY by_a_third ON $table (xid)");
is(sql("SELECT indisvalid FROM pg_index WHERE indexrelid = 'outbox_internal.by_a_third'::regclass"), 'f', 'an index that is not valid');
is(doctor('status'), 'ok', 'ours is there');
sql("SET outbox.allow_loss = on; DROP INDEX $ours");
is(doctor('status'), 'warning', 'ours is not');
all_arrive('without ours');
my ($command) = doctor('hint') =~ /(CREATE INDEX CONCURRENTLY [^;]+)/;
$node->safe_psql('postgres', $command);
is(doctor('status'), 'ok', 'doctor() said how to mend it');
all_arrive('ours again');

no_server_crashed($node);
done_testing();
