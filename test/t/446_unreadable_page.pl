# A page of the log that cannot be read, and a table's file that is not there: everything that tells of the state goes on telling,
# of that trouble and of all else; a route that is past it goes on; seek() moves the other one over it. Who cancels doctor() ends all
# of it.
# matrix: M4
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'healthy', topic => q('healthy'));
$node->safe_psql('postgres', q(SELECT outbox.create_route('hurt', server => 'healthy', topic => 'hurt')));
sub sql { return $node->safe_psql('postgres', $_[0]) }
# What an answer begins with: a value, or the error.
sub answer
{
	my ($query) = @_;
	my ($out, $err) = ('', '');
	my ($status) = $node->psql('postgres', $query, stdout => \$out, stderr => \$err);
	return $status == 0 ? $out : $err =~ /(ERROR: .*)/ ? $1 : $err;
}
sub path_of { my ($table) = @_; return $node->data_dir . '/' . sql("SELECT pg_relation_filepath('$table')") }
my $today = 'outbox_internal.log_' . sql(q(SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')));
my $next = 'outbox_internal.log_' . sql(q(SELECT to_char((now() AT TIME ZONE 'UTC')::date + 1, 'YYYYMMDD')));

sql(q(SELECT outbox.pause('hurt', reason => 'to have a backlog')));
emit_counted($node, 'order', [ 'a', 'b' ], 1, 1500);
ok(wait_until(sub { $redis->xlen('healthy') == 3000 }, 60), 'a route has delivered what another has not');
my $table = sql("SELECT t FROM unnest(ARRAY['$today', '$next']) t WHERE pg_relation_size(t) > 0 LIMIT 1");
my $day = $table =~ /(\d+)$/ ? $1 : '';

# --- a damaged page ---
my $path = path_of($table);
$node->stop;
open(my $file, '+<', $path) or die $!;
seek($file, 20 * 8192, 0);
print $file 'X' x 24;    # its header
close($file);
$node->start;
sql(q(SELECT outbox.resume('hurt')));
ok(wait_until(sub { slurp_file($node->logfile) =~ /lane 0 of route "hurt" is in trouble: invalid page/ }, 60), "the server's log tells of the lane");
like(slurp_file($node->logfile), qr/HINT:  A page or a file of a table or of an index cannot be read\./, 'with what to do');
my $pending = q(SELECT string_agg(concat_ws(' ', route, coalesce(pending::text, 'unknown'), coalesce(error_code, 'well'), delay > interval '0'), ', ' ORDER BY route) FROM outbox.lag);
is(answer($pending), 'healthy 0 well, hurt unknown XX001 t', 'outbox.lag: what could not be counted is unknown, the lane has its error, and the other route is well');
my $problems = q(SELECT string_agg(DISTINCT "check", ' ' ORDER BY "check") FROM outbox.doctor() WHERE status = 'problem');
is(answer($problems), 'lane', 'doctor() has a problem, of the lane');
like(answer(q(SELECT detail || hint FROM outbox.doctor() WHERE status = 'problem')), qr/invalid page in block 20.*A page of the log cannot be read/, 'with the page, and where to read on');
is(answer(q(SELECT outbox.doctor_ok())), 'f', 'doctor_ok() says so');
is(answer(q(SELECT value FROM outbox.metrics() WHERE name = 'outbox_figures_left_out' AND labels @> '{"part": "log"}')), '1', 'metrics() says what it left out');
is(answer(q(SELECT string_agg(concat_ws(' ', m.labels ->> 'route', m.value), ', ' ORDER BY m.labels ->> 'route') FROM outbox.metrics() m WHERE m.name = 'outbox_pending_estimated')),
	'healthy 0, hurt 1', 'and of whom it does not know all');
like(answer("SELECT held_by FROM outbox.day WHERE log_table = '$table'"), qr/^route "hurt" \(not all of the day can be read\)$/, 'outbox.day, too');
is(answer(q(SELECT count(*) FROM outbox.pg_stat_progress_outbox)) =~ /^\d+$/ ? 'answers' : 'no', 'answers', 'what is under way, too');
sql(q(SELECT outbox.emit_text('order', 'a', 'counted', 'a 1501')));
ok(wait_until(sub { $redis->column('healthy', 'payload', 10_000)->[-1] eq 'a 1501' }, 60), 'the healthy route goes on') or diag($redis->xlen('healthy') . ' ' . sql('SELECT * FROM outbox.lag'));

# --- over it ---
like(answer(q(CALL outbox.seek('hurt', 'infinity'))), qr/^\|$/, 'a dry run of seek() does not fail for a count');
my $err = '';
$node->psql('postgres', q(CALL outbox.seek('hurt', 'infinity', dry_run => false)), stderr => \$err);
like($err, qr/how many events route "hurt" sends and passes over is not known\n.*invalid page in block 20/, 'seek() moves the route, and says what it does not know');
ok(wait_for_value($node, q(SELECT count(*) FROM outbox.lag WHERE error_code IS NOT NULL), '0', 60), 'and the lane is well');
sql(q(SELECT outbox.emit_text('order', 'a', 'counted', 'a 1502')));
ok(wait_until(sub { $redis->xlen('hurt') >= 1 && $redis->column('hurt', 'payload')->[-1] eq 'a 1502' }, 60), 'it goes on behind the page');
is(sql(q(SELECT detail -> 'passed_over' FROM outbox.audit WHERE action = 'seek')), 'null', 'the audit knows no number either');

# --- a file that is not there ---
my $other = $table eq $today ? $next : $today;
$path = path_of($other);
$node->stop;
rename $path, "$path.away" or die $!;
$node->start;
ok(wait_for_value($node, q(SELECT count(*) FROM outbox.worker WHERE state = 'running'), '3', 60), 'processes run');
like(answer(q(SELECT count(*) FROM outbox.lag)), qr/^2$/, 'outbox.lag answers without the file of a day');
like(answer(q(SELECT count(*) > 10 FROM outbox.doctor())), qr/^t$/, 'doctor(), too');
like(answer(q(SELECT count(*) > 10 FROM outbox.metrics())), qr/^t$/, 'metrics(), too');
like(answer(q(SELECT count(*) > 0 FROM outbox.day)), qr/^t$/, 'outbox.day, too');
$node->stop;
rename "$path.away", $path or die $!;
$node->start;

# --- an end that is meant for all of it, in the middle of a check that waits ---
ok(wait_for_value($node, q(SELECT count(*) FROM outbox.worker WHERE state = 'running'), '3', 60), 'processes run again');
Outbox::Faults::put('doctor.stands', 1);
like(answer(q(SET statement_timeout = '300ms'; SELECT count(*) FROM outbox.doctor())), qr/canceling statement due to statement timeout/, 'a timeout ends doctor()');
Outbox::Faults::disarm('doctor.stands');
no_server_crashed($node);
done_testing();
