# max_worker_processes has no room for a keeper, so the launcher knows of no database, or is not there either: outbox.process shows all
# that is missing and why, and every number that is named is the one with which all of them run.
# matrix: C15
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "max_worker_processes = 2\noutbox.workers = 8\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub set_processes { my ($number) = @_; sql("ALTER SYSTEM SET max_worker_processes = $number"); $node->restart; return }
my $needed = 4 + 1 + 8;
my $rows = q{SELECT coalesce(string_agg(concat_ws(' ', process, wanted, running, state), ', '), '') FROM outbox.process};

is(sql("$rows WHERE database IS NOT NULL"), '', 'no process is missing before the first route or event');
sql(q{CREATE SERVER n FOREIGN DATA WRAPPER outbox_null});
my (undef, undef, $told) = $node->psql('postgres', q{SELECT outbox.create_route('r', server => 'n', lanes => 8)});
like($told, qr/Set max_worker_processes = $needed and restart/, 'create_route() says what is needed');
sql(q{SELECT outbox.emit('order', 1, 'e', '{}')});
is(sql('SELECT count(*) FROM outbox_internal.log_spare'), 1, 'an event is taken');

foreach my $number (2, 1, 0)
{
	set_processes($number);
	my $launcher = $number == 2 ? 'launcher 1 1 running' : 'launcher 1 0 no place';
	my $all = "$launcher, all 9 0 no place, keeper 1 0 no place, relay 8 0 no place";
	ok(wait_for_value($node, $rows, $all, 30), "$number: all that is missing is shown") or is(sql($rows), $all);
	is(sql('SELECT count(*) FROM outbox.process WHERE database = current_database()'), 2, 'with its database');
	is(sql(qq{SELECT count(*) FROM outbox.process WHERE running = 0 AND detail !~ 'max_worker_processes = $number has no room .* Set max_worker_processes = $needed and restart'}), 0,
		'and why, with the number to set');
	is(sql(q{SELECT string_agg(DISTINCT m[1], ' ') FROM outbox.doctor() d, regexp_matches(d.hint, 'Set max_worker_processes = ([0-9]+) ') m}), $needed, 'doctor() names the same');
	my $hint = sql(q{SELECT hint FROM outbox.doctor() WHERE "check" = 'day tables'});
	like($hint, qr/max_worker_processes = $number has no room .* outbox_internal\.log_spare/, 'and where events go without day tables');
}

set_processes($needed);
is(sql("SELECT outbox.wait_until_idle('120 s')"), 't', 'with that number events go');
my $running = 'launcher 1 1 running, all 9 9 running, keeper 1 1 running, relay 8 8 running';
ok(wait_for_value($node, $rows, $running, 60), 'and all processes run') or is(sql($rows), $running);
unlike(sql(q{SELECT coalesce(string_agg(hint, ' '), '') FROM outbox.doctor()}), qr/max_worker_processes/, 'doctor() asks for no more');
no_server_crashed($node);
done_testing();
