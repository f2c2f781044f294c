# A page that has to be read before anything is written to a Redis that was restarted cannot be read, of the runs that were met or of
# old positions: nothing is sent there, by no route, and lag, outbox.destination, doctor() and the server's log say which page it is
# and what to do; pg_stat_activity says that the worker waits. What the page on trouble says to do has all of it go on.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\n");
my $redis = Outbox::Redis->start(conf => [ 'appendonly yes', 'appendfsync always' ]);
sub sql { return $node->safe_psql('postgres', $_[0]) }
redis_route($node, $redis, 'r', aggregate_types => q('{one}'), topic => q('one'));
sql(q(SELECT outbox.create_route('two', server => 'r', aggregate_types => '{two}', topic => 'two')));
my $last = 0;
sub emit { $last++; return sql("SELECT outbox.emit_text(t, 'k', 'x', 'k $last') FROM unnest(ARRAY['one', 'two']) t") }
sub there { return join ' | ', map { by_key([ map { $_->{payload} } @{ $redis->entries($_) } ])->{k} // '' } qw(one two) }
sub upto { my ($n) = @_; return join ' | ', (join ' ', 1 .. $n) x 2 }
sub damage
{
	my ($table, $meanwhile) = @_;
	my $path = $node->data_dir . '/' . sql("SELECT pg_relation_filepath('$table')");
	$node->stop;
	open my $file, '+<:raw', $path or die $!;
	print $file 'X' x 24;    # the header of its first page
	close $file;
	$meanwhile->();
	return $node->start;
}

emit();
ok(wait_idle($node), 'idle');

# Positions on several pages, the newest on none of the first.
my $day = sql(q{SELECT 'outbox_internal.progress_' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')});
sql("SET outbox.allow_loss = on; INSERT INTO $day (at, route_id, lane, window_from, window_to, done_to, side, places, run, acknowledged)
	SELECT p.at - i * interval '1 us', p.route_id, p.lane, p.window_from, p.window_to, p.done_to, p.side, p.places, p.run, p.acknowledged
	FROM (SELECT * FROM $day WHERE places IS NOT NULL ORDER BY at DESC LIMIT 1) p, generate_series(1, 200) i");
foreach my $table (qw(server_run progress))
{
	my $what = $table eq 'progress' ? $day : "outbox_internal.$table";
	emit();
	ok(wait_idle($node), 'idle');
	my $before = $last;
	my $log = -s $node->logfile;
	# A worker that had it connected, and one that never had.
	my $restart = sub { $redis->kill9; $redis->restart };
	damage($what, $table eq 'progress' ? $restart : sub { });
	$restart->() unless $table eq 'progress';
	emit();
	ok(wait_for_value($node, q(SELECT error_class || ' ' || error_code FROM outbox.destination), 'internal XX001', 60), "$table: the destination is in trouble");
	like(sql('SELECT error_message FROM outbox.destination'), qr/^nothing is sent before it is known what its server may have lost, and that cannot be found out: invalid page in block 0 /,
		'with the page, and what depends on it');
	ok(wait_for_value($node, q(SELECT string_agg(error_code, ' ') FROM outbox.lag), 'XX001 XX001', 20), 'the lanes of both routes say so') or diag(sql('TABLE outbox.lag'));
	is(sql(q(SELECT query FROM pg_stat_activity WHERE backend_type = 'outbox relay')), 'waiting for r', 'and the worker does not say that it publishes');
	my $doctor = q(SELECT status || ': ' || detail || ' ' || hint FROM outbox.doctor() WHERE "check" = 'destination');
	like(sql($doctor), qr/^problem: Destination "r" gets nothing.* invalid page in block 0 .*A page of the log cannot be read/, 'doctor() has a problem, and where to read on');
	ok(wait_until(sub { slurp_file($node->logfile, $log) =~ /WARNING:  outbox: destination "r" is in trouble: nothing is sent before .*invalid page in block 0 .*HINT:  A page or a file of a table or of an index cannot be read/s }, 20),
		"the server's log has a line");
	is(there(), upto($before), 'nothing was sent');
	my ($rc, $out, $err) = $node->psql('postgres', "SET zero_damaged_pages = on; VACUUM FULL $what");
	like($err, qr/WARNING:  invalid page in block 0 of relation .*; zeroing out page/, 'the page is given up');
	ok(wait_until(sub { there() eq upto($last) }, 30), 'all is sent') or diag(there());
	ok(wait_for_value($node, q(SELECT state || coalesce(error_code, '') FROM outbox.destination), 'closed', 20), 'and the destination is well');
}
no_server_crashed($node);
done_testing();
