# A damaged page of the table of parked events takes what it would have told, and nothing else, from outbox.lag and metrics(), and the page's
# recipe has the lane go on. One of what is stored of the clock: doctor() says that emit() fails, the keeper what to do, and the recipe mends it.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\noutbox.lone_emit = allow\nautovacuum = off\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'r', topic => q('r'));
sub sql { return $node->safe_psql('postgres', $_[0]) }
# What an answer begins with: a value, or the error.
sub answer
{
	my ($query) = @_;
	my ($out, $err) = ('', '');
	my ($status) = $node->psql('postgres', $query, stdout => \$out, stderr => \$err);
	return $status == 0 ? $out : $err =~ /(ERROR: .*)/ ? $1 : $err;
}
sub damage
{
	my ($table) = @_;
	my $path = $node->data_dir . '/' . sql("SELECT pg_relation_filepath('$table')");
	$node->stop;
	open(my $file, '+<', $path) or die $!;
	print $file 'X' x 24;    # the header of its first page
	close($file);
	$node->start;
}
my $page = slurp_file("$ENV{OUTBOX_TOP}/docs/when-things-go-wrong.md");
my $lag = q(SELECT concat_ws(' ', state, coalesce(pending::text, 'unknown'), coalesce(parked::text, 'unknown'), coalesce(overdue::text, 'unknown')) FROM outbox.lag);
my $left_out = q(SELECT labels ->> 'part' FROM outbox.metrics() WHERE name = 'outbox_figures_left_out');

# --- parked events ---
sql(q(SELECT outbox.emit('o', 'k' || n, 'e', '{}', deliver_at => now() + interval '1 hour') FROM generate_series(1, 300) n));
sql(q(SELECT outbox.emit('o', 'k', 'e', '{}')));
ok(wait_for_value($node, $lag, 'idle 0 300 0', 60), 'events are parked');
damage('outbox_internal.parked');
sql(q(SELECT outbox.emit('o', 'k', 'e', '{}')));
ok(wait_until(sub { answer($lag) =~ / [01] unknown unknown$/ }, 20), 'outbox.lag does not know how many, and answers') or diag(answer($lag));
is(answer($left_out), 'parked', 'metrics(), too');
like(answer(q(SELECT count(*) FROM outbox.pg_stat_progress_outbox)), qr/^\d+$/, 'and what is under way');
like(answer(q(SELECT string_agg("check", ' ') FROM outbox.doctor() WHERE status = 'problem')), qr/\bparked\b/, 'doctor() has it');
like(answer(q(SELECT detail FROM outbox.doctor() WHERE "check" = 'parked' AND status = 'problem')), qr/ base\/\d+\/\d+ is outbox_internal\.parked\./, 'and which table it is');
my ($mend) = $page =~ /^(SET zero_damaged_pages = on; VACUUM FULL outbox_internal\.server_run;) RESET/m or die 'the page has no recipe';
$node->psql('postgres', $mend =~ s/server_run/parked/r =~ s/zero_damaged_pages = on; /zero_damaged_pages = on;\n/r);
my ($left) = answer($lag) =~ /(\d+) 0$/;
ok(defined $left && $left > 0 && $left < 300, 'the recipe of the page leaves those of other pages') or diag(answer($lag));
sql(q(SELECT outbox.emit('o', 'k', 'e', '{}')));
ok(wait_for_value($node, $lag, "idle 0 $left 0", 60), 'and the lane goes on') or diag(answer('TABLE outbox.lag'));
is($redis->xlen('r'), 3, 'with all others');

# --- the clock ---
damage('outbox_internal.clock_ceiling');
like(answer(q(SELECT outbox.emit('o', 'k', 'e', '{}'))), qr/invalid page in block 0/, 'emit() fails');
like(answer(q(SELECT detail FROM outbox.doctor() WHERE "check" = 'clock' AND status = 'problem')), qr/clock_ceiling, cannot be read: invalid page .*\(XX001\)\. emit\(\) fails/, 'doctor() says so');
is(answer(q(SELECT outbox.doctor_ok())), 'f', 'doctor_ok(), too');
ok(wait_until(sub { slurp_file($node->logfile) =~ /outbox keeper, [a-z ]+: invalid page in block 0.*\n.*HINT:  A page or a file of a table/ }, 30), 'the keeper says what to do');
my ($anew) = $page =~ /^(SET outbox\.allow_loss = on;[^\n]*\nALTER EXTENSION outbox DROP SEQUENCE.*?)^```/ms or die 'the page has no block';
my ($rc, $out, $err) = $node->psql('postgres', $anew);
unlike($err, qr/ERROR/, 'the recipe of the page has it made anew');
ok(wait_until(sub { answer(q(SELECT outbox.emit('o', 'k', 'e', '{}'))) =~ /^[0-9a-f-]{36}$/ }, 30), 'emit() works again');
ok(wait_until(sub { $redis->xlen('r') == 4 }, 30), 'and what it emits is delivered');
is(answer(q(SELECT string_agg(concat_ws(': ', "check", detail), ' ') FROM outbox.doctor() WHERE status = 'problem')), '', 'doctor() has no problem');
no_server_crashed($node);
done_testing();
