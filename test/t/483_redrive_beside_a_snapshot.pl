# Very many dead letters are sent again while a transaction holds a snapshot, so that no vacuum may take away what has gone: neither
# the session that calls redrive() nor the lane passes all of it again for each event; nor does the session where nothing goes, and
# all that it has made due waits before the next one.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.lone_emit = allow\noutbox.workers = 1\nautovacuum = off\n");
sub sql { return $node->safe_psql('postgres', @_) }
# Entries of the index of what waits, by key, that searches have come by.
sub entries_read { return index_entries_read($node, 'parked_key_idx') }
sub redrive { return sql(q(SET client_min_messages = error; CALL outbox.redrive('all', batch => 500, dry_run => false))) }
sql(q(CREATE SERVER n FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('all', 'n')));

# Nothing goes: the route is paused.
my $events = 8_000;
make_dead_letters($node, $events, 20);
sql(q(SELECT outbox.pause('all', reason => 'test')));
my $read = entries_read();
redrive();
my $each = (entries_read() - $read) / $events;
cmp_ok($each, '<', 40, "400 events of a key are made due one after the other, and those before are not looked at again: $each entries for each");
is(sql(q(SELECT count(*) FROM outbox_internal.parked WHERE state = 'retrying')), $events, 'all of them');
sql(q(SELECT outbox.resume('all')));
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', '0', 120), 'and go');

# All goes, and stays in the index.
$events = 16_000;
make_dead_letters($node, $events, 100);
sql('VACUUM outbox_internal.parked');
my $holder = $node->background_psql('postgres', on_error_stop => 1, timeout => 600);
$holder->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM outbox_internal.parked');
$read = entries_read();
redrive();
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', '0', 240), 'beside a snapshot all go, too');
$each = (entries_read() - $read) / $events;
cmp_ok($each, '<', 300, "what has gone is not passed again and again: $each entries for each");
is(sql(q(SELECT count(*) FROM outbox_internal.outcome WHERE outcome = 'delivered')), 24_000, 'all are delivered');
$holder->quit;
no_server_crashed($node);
done_testing();
