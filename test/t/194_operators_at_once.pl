# Operators, five at once, do whatever there is to do to three routes, at random, alone and two acts to a transaction: pause,
# resume, retry, skip, discard, redrive, replay, seek, other lanes, dropped and recreated. No internal error, no
# deadlock of a worker, no delay for sessions that emit; a fourth route beside them is delivered, once, in order; and
# afterwards the three work. OUTBOX_TEST_SEED and OUTBOX_TEST_ACTS play another one, a longer one.
# matrix: S2 S3 S4
use strict;
use warnings;

use IPC::Run;
use Outbox::Ledger;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "outbox.workers = 2\nlog_error_verbosity = verbose\n");
my $redis = Outbox::Redis->start(conf => ['proto-max-bulk-len 1048576']);
Outbox::Ledger::install($node);
redis_route($node, $redis, 'beside', topic => q('beside'), lanes => 2, aggregate_types => q('{order}'));
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sql("CREATE SERVER stormy FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}')");
my $create = q{outbox.create_route('r%R', server => 'stormy', topic => 'r%R.{aggregate_type}', lanes => %N)};
sql('SELECT ' . $create =~ s/%[RN]/$_/gr) foreach 1 .. 3;

my $key = q{route => 'r%R', aggregate_type => 'order', aggregate_id => '%N'};
my $topic = q{route => 'r%R', topic => 'r%R.order'};
my @acts = (
	(map { "SELECT $_" }
		q{outbox.alter_route('r%R', lanes => %N)}, q{outbox.alter_route('r%R', on_failure => 'block')}, q{outbox.alter_route('r%R', on_failure => 'skip')},
		(map { ("outbox.pause($_, reason => 'x')", "outbox.resume($_)", "outbox.resume($_)") } q{route => 'r%R'}, q{server => 'stormy'}, $topic, $key),
		q{outbox.retry(id) FROM outbox_internal.parked ORDER BY random() LIMIT 3}, q{outbox.retry((SELECT min(id::text)::uuid FROM outbox_internal.parked))},
		q{outbox.skip((SELECT min(id::text)::uuid FROM outbox_internal.parked), 'x')}, q{outbox.discard(id, 'x') FROM outbox.dead_letter LIMIT 2},
		q{outbox.drop_route('r%R')}, $create, $create,
		q{outbox.emit_text('other', '%N', 'x', repeat('x', 1000), deliver_at => now() + interval '1 s')}, q{outbox.emit_text('other', '%N', 'x', repeat('x', 900000))},
		q{outbox.wait_until_idle('100 ms')}, q{outbox.status(id) FROM outbox_internal.log ORDER BY random() LIMIT 1}, q{* FROM outbox.lag}, q{* FROM outbox.doctor()}),
	(map { "CALL $_" }
		q{outbox.redrive(route => 'r%R', dry_run => false)}, q{outbox.discard_dead_letters(route => 'r%R', reason => 'x', dry_run => false)},
		q{outbox.seek('r%R', now() - interval '1 s')}, q{outbox.seek('r%R', 'infinity')},
		q{outbox.replay(since => now() - interval '200 ms', route => 'r%R', per_second => NULL, dry_run => false)}));

my $seed = $ENV{OUTBOX_TEST_SEED} // 20261122;
srand($seed);
note("OUTBOX_TEST_SEED=$seed");
my $load = Outbox::Ledger::start_load($node, seconds => 300, clients => 2, rate => 20);
my @operators;
foreach my $operator (1 .. 5)
{
	my $script = "SET client_min_messages = error;\n";
	foreach (1 .. $ENV{OUTBOX_TEST_ACTS} // 120)
	{
		my ($act, $second) = map { my ($r, $n) = (1 + int rand 3, 1 + int rand 5); s/%R/$r/gr =~ s/%N/$n/gr } map { $acts[ rand @acts ] } 1, 2;
		$script .= rand() < 0.2 && "$act $second" !~ /CALL/ ? "BEGIN; $act; $second; COMMIT;\n" : "$act;\n";
	}
	my $file = $node->basedir . "/operator-$operator.sql";
	append_to_file($file, $script);
	push @operators, IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-f', $file ], '<', \undef, '>&', \my $output);
}
$_->finish foreach @operators;
ok(Outbox::Ledger::end_load($load), 'no session that emits met an error');
ok(wait_for_value($node, q{SELECT sum(pending) FROM outbox.lag WHERE route = 'beside'}, '0', 60), 'a route beside all that has got everything');
Outbox::Ledger::check($node, 'beside', $redis->column('beside', 'payload'));

# Left alone, the others become idle, and work.
$node->psql('postgres', q{SELECT outbox.resume(server => 'stormy')});
sql(q{SELECT outbox.drop_route(name) FROM outbox.route WHERE name = 'r1'});
foreach my $pause (split /\n/, sql(q{SELECT concat('route => ', quote_literal(r.name), ', topic => ' || quote_literal(nullif(p.topic, '')),
	', aggregate_type => ' || quote_literal(nullif(p.aggregate_type, '')), ', aggregate_id => ' || quote_literal(nullif(p.aggregate_id, '')))
	FROM outbox.pause p JOIN outbox.route r ON r.id = p.route_id}))
{
	sql("SELECT outbox.resume($pause)");
}
is(sql('SELECT count(*) FROM outbox.pause'), 0, 'nothing is paused any more');
sql(q{CALL outbox.discard_dead_letters(reason => 'x', dry_run => false)});
ok(wait_idle($node, 60), 'everything comes to rest');
ok(wait_for_value($node, 'SELECT (SELECT count(*) FROM outbox_internal.parked) + (SELECT count(*) FROM outbox_internal.side_topic) + (SELECT count(lanes_wanted) FROM outbox.route)', 0, 60),
	'nothing is parked, away or in flight');
$node->psql('postgres', 'SELECT ' . $create =~ s/%[RN]/$_/gr) foreach 1 .. 3;
emit_counted($node, 'late', ['k'], 1, 20);
ok(wait_idle($node, 60), 'what comes now is delivered');
is(by_key($redis->column("r$_.late", 'payload'))->{k}, join(' ', 1 .. 20), "by r$_, once, in order") foreach 1 .. 3;
my $log = slurp_file($node->logfile);
my %errors;
$errors{$1}++ while $log =~ /ERROR:  ([0-9A-Z]{5}):/g;
note(join ', ', map { "$_ $errors{$_} times" } sort keys %errors);
is(join(' ', grep { /^(?:XX|58)/ } keys %errors), '', 'no internal error');
# Two operators may: each in a transaction of several acts, or in one statement about several events, in another order.
unlike($log, qr/\] outbox \w+ .*deadlock/, 'no worker comes to a deadlock');
cmp_ok(scalar keys %errors, '>', 3, 'and there was something to refuse');
no_server_crashed($node);
done_testing();
