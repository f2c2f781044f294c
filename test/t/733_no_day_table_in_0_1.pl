# In a database of 0.1 that waits for its update, where there is no room for a worker and no table for the day, emit() says that
# the update makes what is missing: 0.1 has no spare table. Before, the HINT was about that table alone.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => stage_with('outbox--0.1.sql') . "\nmax_worker_processes = 3\n", extension => 0);
$node->safe_psql('postgres', "CREATE EXTENSION outbox VERSION '0.1'");
my $emit = q{SELECT outbox.emit('order', 1, 'created', '{"n": 1}')};
my ($status, undef, $error) = $node->psql('postgres', "SET statement_timeout = '15s'; $emit");
isnt($status, 0, 'there is no table for an event');
like($error, qr/HINT: .* where outbox\.version\(\) shows two versions, ALTER EXTENSION outbox UPDATE makes it/, 'and the HINT says what makes one');
$node->safe_psql('postgres', 'ALTER EXTENSION outbox UPDATE');
$node->safe_psql('postgres', $emit);
is($node->safe_psql('postgres', 'SELECT count(*) FROM outbox_internal.log'), 1, 'after the update an event is taken');
no_server_crashed($node);
done_testing();
