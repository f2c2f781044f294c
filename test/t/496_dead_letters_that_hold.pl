# As 483, of a route whose dead letters hold their keys (on_failure => block): dead letters that have gone stay in their index, too, while
# a transaction holds a snapshot, and neither redrive(), discard_dead_letters() nor the lane passes all of them again for each event.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.lone_emit = allow\noutbox.workers = 1\nautovacuum = off\n");
sub sql { return $node->safe_psql('postgres', @_) }
# Entries of the index of dead letters, by key, that searches have come by.
sub entries_read { return index_entries_read($node, 'parked_dead_idx') }
sql(q(CREATE SERVER n FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('all', 'n', on_failure => 'block')));
my $events = 16_000;
foreach my $call (q(redrive('all', batch => 500, dry_run => false)), q(discard_dead_letters('all', batch => 500, dry_run => false, reason => 'test')))
{
	make_dead_letters($node, $events, 20);
	sql('VACUUM outbox_internal.parked');
	my $holder = $node->background_psql('postgres', on_error_stop => 1, timeout => 600);
	$holder->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM outbox_internal.parked');
	my $read = entries_read();
	sql("SET client_min_messages = error; CALL outbox.$call");
	ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', '0', 240), "beside a snapshot all go: $call");
	my $each = (entries_read() - $read) / $events;
	cmp_ok($each, '<', 110, "what has gone is not passed again and again: $each entries for each");
	$holder->quit;
}
no_server_crashed($node);
done_testing();
