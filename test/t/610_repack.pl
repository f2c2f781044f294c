# REPACK (PostgreSQL 19), also CONCURRENTLY, of each table of outbox while events are emitted, also for later, and published: each arrives
# once, in the order of its key. The log itself the server refuses to copy in that way: its rows are told apart by their whole content.
# matrix: C8
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "wal_level = logical\nmax_replication_slots = 10\n");
plan skip_all => 'REPACK is of PostgreSQL 19' if $node->safe_psql('postgres', 'SHOW server_version_num') < 190000;
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'shop', topic => "'shop'");
sub sql { return $node->safe_psql('postgres', 'SET outbox.lone_emit = allow;' . join '', @_) }

# Two that go on for as long as tables are rewritten: one emits for now, one for a moment later.
sql('CREATE TABLE goes_on AS SELECT 1 AS so');
my @emitting = map { $node->background_psql('postgres') } 1 .. 2;
foreach my $k (0, 1)
{
	my $when = $k ? q(clock_timestamp() + interval '50 ms' * (i % 7)) : 'NULL';
	$emitting[$k]->query_until(qr/begun/, qq{\\echo begun\nSET outbox.lone_emit = allow; DO \$\$ DECLARE i int := 0; BEGIN WHILE EXISTS (SELECT FROM goes_on) LOOP
		i := i + 1; PERFORM outbox.emit('k$k', (i % 3)::text, 'e', to_jsonb(i), deliver_at => $when); PERFORM pg_sleep(0.002); COMMIT; END LOOP; END \$\$;\n});
}
my @tables = split /\n/, sql(q{SELECT c.oid::regclass FROM pg_class c WHERE relkind = 'r' AND relnamespace IN ('outbox_internal'::regnamespace, 'outbox'::regnamespace) ORDER BY 1});
cmp_ok(scalar @tables, '>', 40, scalar(@tables) . ' tables');
my (@refused, @wrong);
foreach my $table (@tables)
{
	foreach my $way ('', '(CONCURRENTLY)')
	{
		my ($code, $out, $err) = $node->psql('postgres', "SET outbox.allow_loss = on; REPACK $way $table");
		if    ($code && $way && $err =~ /REPLICA IDENTITY FULL|does not have|no identity/) { push @refused, $table }
		elsif ($code) { push @wrong, "$table $way: $err" }
	}
}
is("@wrong", '', 'each is rewritten');
ok((grep { $_ eq 'outbox_internal.parked' || $_ eq 'outbox_internal.lane' } @refused) == 0, 'what is worked with row by row also beside that');
ok((grep { /log_\d+$/ } @refused) > 0, 'but for the log');
sql('DELETE FROM goes_on');
$_->quit foreach @emitting;
ok(wait_idle($node, undef, 60), 'idle');
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', 0, 60), 'all of later is due and gone');
my $arrived = $redis->column('shop', 'id');
my $emitted = sql('SELECT count(*) FROM outbox_internal.log');
is(scalar(@$arrived), $emitted, "all $emitted have arrived, once");
my %at = map { $arrived->[$_] => $_ } 0 .. $#$arrived;
is(scalar(keys %at), $emitted, 'each');
my (%last, @turned);
foreach (split /\n/, sql(q{SELECT id || ' ' || aggregate_id FROM outbox_internal.log WHERE aggregate_type = 'k0' ORDER BY (convert_from(payload, 'UTF8'))::int}))
{
	my ($id, $key) = split / /;
	push @turned, $id if defined $last{$key} && $at{$id} < $last{$key};
	$last{$key} = $at{$id};
}
is("@turned", '', 'in the order of their key');
no_server_crashed($node);
done_testing();
